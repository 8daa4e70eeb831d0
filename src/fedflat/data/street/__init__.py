"""A synthetic street world: driving scenes with exact masks, positions and headings.

    styles.py     what towns look like
    town.py       a town: streets, houses, trees, lamps, signs
    traffic.py    cars and people; routes and views of vehicles
    camera.py     perspective projection
    walls.py      visible houses and their walls
    ground.py     roads, road markings, pavements and lawns
    figures.py    trees, lamps, signs and people
    cars.py       cars
    frame.py      the buffers of images; fragments.py: pixels of many small objects at once
    scene.py      an image and its mask
    weather.py    sun, rain, fog, dusk, night, snow
    lens.py       the look of a game and of a camera
    film.py       the images of one vehicle along its route

The renderer knows nothing of federated learning; the data set is `data/sets/street.py`. Start with
`film.py` and `scene.py`.
"""
