"""Styles of towns: width of streets, shape and colours of houses, kinds of trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedflat.data.street.frame import Array

Colour = tuple[int, int, int]
Range = tuple[float, float]


@dataclass(frozen=True)
class Style:
    """The style of a town. Lengths are in metres, colours are RGB from 0 to 255."""

    name: str
    walls: tuple[Colour, ...]
    trims: tuple[Colour, ...]
    roofs: tuple[Colour, ...]
    glass: Colour = (72, 92, 112)
    floors: Range = (3, 5)
    storey: float = 3.2
    lot: Range = (9, 15)
    gap: float = 0.0
    setback: float = 0.0
    gable: float = 0.0
    """Height of gables above the eaves, relative to the house's width."""
    windows: tuple[float, float, float] = (2.4, 0.5, 0.55)
    """Metres between windows, and the relative width and height of a window in its field."""
    shops: float = 0.4
    block: Range = (58, 84)
    road: float = 4.2
    """Metres from the centre of the road to the kerb."""
    pavement: float = 2.6
    verge: float = 0.0
    asphalt: Colour = (92, 92, 96)
    flags: Colour = (158, 154, 148)
    lawn: Colour = (98, 128, 62)
    centre: Colour = (232, 232, 226)
    solid: bool = False
    """True if the centre line is an unbroken double line."""
    tree: str = "round"
    tree_gap: float = 14.0
    tree_height: Range = (5, 8)
    leaves: tuple[Colour, ...] = ((74, 110, 48), (90, 124, 52), (64, 98, 50))
    parks: float = 0.12
    lamp_gap: float = 24.0
    cars: tuple[Colour, ...] = (
        (196, 200, 204),
        (44, 48, 56),
        (150, 30, 34),
        (36, 68, 128),
        (226, 226, 222),
        (92, 98, 104),
    )
    parked: float = 0.4
    people: float = 7.0


STYLES = (
    Style(
        "Brigstone",
        walls=((150, 74, 56), (128, 62, 50), (168, 92, 66), (112, 66, 58), (176, 120, 86)),
        trims=((226, 216, 196), (208, 198, 182), (238, 232, 220)),
        roofs=((86, 56, 52), (70, 64, 66), (110, 62, 50)),
        floors=(3, 4),
        lot=(7, 10),
        gable=0.42,
        windows=(2.1, 0.46, 0.56),
        road=3.6,
        pavement=2.4,
        asphalt=(98, 92, 90),
        flags=(150, 136, 122),
        tree_gap=17,
        tree_height=(5, 7),
        parked=0.5,
    ),
    Style(
        "Novaport",
        walls=((124, 142, 158), (92, 110, 130), (168, 176, 182), (76, 86, 100), (140, 150, 150)),
        trims=((196, 206, 214), (64, 74, 88)),
        roofs=((96, 104, 112),),
        glass=(92, 134, 164),
        floors=(7, 20),
        storey=3.6,
        lot=(16, 26),
        gap=1.5,
        windows=(1.9, 0.82, 0.74),
        shops=0.8,
        block=(78, 110),
        road=7.2,
        pavement=4.6,
        asphalt=(82, 84, 90),
        flags=(172, 172, 172),
        centre=(236, 190, 52),
        solid=True,
        tree_gap=19,
        tree_height=(4.5, 6.5),
        lamp_gap=28,
        parks=0.08,
        cars=((240, 188, 36), (240, 188, 36), (34, 36, 42), (222, 224, 226), (120, 126, 132)),
        parked=0.2,
        people=12,
    ),
    Style(
        "Solana",
        walls=(
            (236, 200, 140),
            (228, 168, 122),
            (240, 222, 188),
            (216, 144, 108),
            (244, 232, 214),
            (206, 178, 150),
        ),
        trims=((72, 116, 92), (64, 104, 132), (128, 84, 58)),
        roofs=((184, 98, 66), (196, 116, 80)),
        glass=(84, 96, 96),
        floors=(2, 4),
        lot=(8, 13),
        gable=0.0,
        windows=(2.7, 0.42, 0.6),
        shops=0.5,
        road=3.9,
        pavement=2.8,
        asphalt=(126, 118, 110),
        flags=(206, 190, 166),
        lawn=(140, 138, 78),
        tree="palm",
        tree_gap=12,
        tree_height=(6, 9),
        leaves=((86, 122, 58), (104, 132, 60)),
        people=9,
        parked=0.35,
    ),
    Style(
        "Larkfield",
        walls=((238, 236, 228), (198, 212, 216), (226, 214, 186), (182, 196, 178), (168, 92, 78)),
        trims=((250, 250, 248), (90, 100, 110)),
        roofs=((96, 82, 78), (78, 82, 92), (124, 76, 64)),
        floors=(1, 2),
        storey=3.0,
        lot=(10, 14),
        gap=6.5,
        setback=5.0,
        gable=0.45,
        windows=(3.1, 0.42, 0.5),
        shops=0.0,
        road=3.8,
        pavement=1.7,
        verge=2.2,
        asphalt=(108, 108, 110),
        flags=(184, 180, 172),
        lawn=(104, 146, 62),
        tree_gap=11,
        tree_height=(5.5, 9),
        leaves=((82, 128, 52), (104, 142, 56), (142, 130, 54), (70, 112, 60)),
        parks=0.2,
        lamp_gap=32,
        parked=0.15,
        people=3,
    ),
    Style(
        "Betonsk",
        walls=((190, 188, 182), (172, 174, 176), (204, 198, 186), (152, 156, 160)),
        trims=((208, 116, 58), (66, 132, 140), (186, 168, 70), (224, 222, 216)),
        roofs=((130, 130, 130),),
        glass=(66, 82, 100),
        floors=(6, 10),
        storey=2.9,
        lot=(24, 38),
        gap=9.0,
        setback=3.5,
        windows=(3.0, 0.74, 0.48),
        shops=0.15,
        block=(84, 116),
        road=5.6,
        pavement=3.0,
        verge=1.6,
        asphalt=(100, 102, 104),
        flags=(166, 166, 162),
        lawn=(112, 132, 74),
        tree="poplar",
        tree_gap=9,
        tree_height=(8, 12),
        leaves=((86, 118, 60), (104, 128, 62)),
        lamp_gap=26,
        people=5,
    ),
    Style(
        "Fjordvik",
        walls=(
            (172, 52, 44),
            (222, 176, 72),
            (62, 98, 112),
            (236, 232, 220),
            (70, 110, 84),
            (206, 120, 60),
        ),
        trims=((248, 246, 240), (252, 250, 246)),
        roofs=((58, 62, 70), (74, 70, 72)),
        floors=(2, 3),
        storey=3.0,
        lot=(7, 11),
        gap=1.2,
        setback=0.6,
        gable=0.55,
        windows=(2.3, 0.4, 0.5),
        shops=0.2,
        road=3.4,
        pavement=2.0,
        asphalt=(84, 88, 96),
        flags=(146, 148, 152),
        lawn=(92, 118, 70),
        tree="fir",
        tree_gap=15,
        tree_height=(6, 10),
        leaves=((48, 84, 62), (58, 94, 66)),
        parks=0.18,
        people=4,
        parked=0.3,
    ),
    Style(
        "Ostara",
        walls=((222, 206, 180), (234, 224, 204), (206, 192, 172), (226, 196, 168)),
        trims=((196, 186, 168), (244, 238, 226), (110, 106, 104)),
        roofs=((92, 104, 116), (104, 112, 120)),
        floors=(5, 6),
        storey=3.4,
        lot=(14, 20),
        windows=(2.2, 0.42, 0.68),
        shops=0.9,
        block=(70, 96),
        road=6.4,
        pavement=4.8,
        asphalt=(104, 102, 100),
        flags=(186, 178, 166),
        tree_gap=8,
        tree_height=(7, 10),
        leaves=((96, 130, 62), (112, 140, 66)),
        lamp_gap=20,
        people=11,
        parked=0.45,
    ),
    Style(
        "Adobar",
        walls=((206, 150, 104), (190, 132, 92), (222, 176, 130), (232, 200, 160)),
        trims=((58, 128, 148), (120, 70, 50), (236, 226, 206)),
        roofs=((176, 124, 88),),
        glass=(60, 62, 66),
        floors=(1, 3),
        storey=3.3,
        lot=(9, 16),
        gap=2.0,
        setback=1.2,
        windows=(3.4, 0.3, 0.4),
        shops=0.25,
        road=4.6,
        pavement=2.2,
        asphalt=(146, 130, 112),
        flags=(208, 184, 148),
        lawn=(196, 168, 118),
        tree="palm",
        tree_gap=26,
        tree_height=(5, 8),
        leaves=((116, 128, 62), (98, 118, 60)),
        parks=0.1,
        people=4,
        parked=0.25,
    ),
)


def style_of(number: int) -> Style:
    """The style of a town; the list repeats, with other streets and houses."""
    return STYLES[number % len(STYLES)]


@lru_cache(maxsize=64)
def shades(colours: tuple[Colour, ...]) -> Array:
    """Colours from 0 to 1, one per row."""
    return np.asarray(np.array(colours, np.float32) / 255)
