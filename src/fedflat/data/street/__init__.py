"""A street world of our own: driving scenes with exact masks, positions and headings, drawn from a
seed.

styles.py     what towns look like
town.py       a town: streets, houses, trees, lamps, signs
traffic.py    cars and people, where a vehicle drives and looks
camera.py     perspective: from the world to the picture and back
walls.py      which house is seen where, and how its walls look
ground.py     roads, marks, pavements and lawns
figures.py    trees, lamps, signs and people
cars.py       cars
frame.py      a picture in the making; fragments.py: pixels of many small things at once
scene.py      a picture and its mask
weather.py    sun, rain, fog, dusk, night, snow
lens.py       the finish of a game and of a camera
film.py       what one vehicle takes along its way
"""
