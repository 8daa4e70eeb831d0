"""A synthetic street world: driving scenes with exact masks, positions and headings.

    styles.py     what towns look like
    town.py       a town: streets, houses, trees, lamps, signs
    traffic.py    cars and people; routes and views of vehicles
    frame.py      cameras, the buffers of images, pixels of many small objects at once
    buildings.py  visible houses; roads, road markings, pavements and lawns
    figures.py    trees, lamps, signs and people
    cars.py       cars
    weather.py    sun, rain, fog, dusk, night, snow
    film.py       an image and its mask; cameras and games; the images of one vehicle's route

The renderer knows nothing of federated learning; the data set is `data/sets/street.py`. Start with
`film.py`.
"""
