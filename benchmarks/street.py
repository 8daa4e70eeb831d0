"""How many pictures of the street world are drawn in a second of one core, in each weather.

python benchmarks/street.py [--pictures 20] [--size 64x128] [--style real]
"""

from __future__ import annotations

import argparse
from time import process_time

from fedflat.data.street.film import FINISHES, Journey
from fedflat.data.street.styles import STYLES
from fedflat.data.street.weather import WEATHERS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pictures", type=int, default=20, help="of a vehicle in each town and weather"
    )
    parser.add_argument("--size", default="64x128", help="rows x columns")
    parser.add_argument("--style", default="real", choices=FINISHES)
    output = parser.parse_args()
    rows, width = map(int, output.size.split("x"))
    towns = range(len(STYLES))
    for town in towns:
        Journey(0, 0, town, width=width, rows=rows).film(1)  # a town is built once
    spent = 0.0
    for weather in WEATHERS:
        start = process_time()
        for town in towns:
            Journey(
                0, town, town, weather, ("car", "bus")[town % 2], output.style, width, rows
            ).film(output.pictures)
        took = process_time() - start
        spent += took
        print(f"{weather:8}{len(towns) * output.pictures / took:8.0f} images/s")
    print(f"{'all':8}{len(WEATHERS) * len(towns) * output.pictures / spent:8.0f} images/s")


if __name__ == "__main__":
    main()
