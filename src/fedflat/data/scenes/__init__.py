"""Driving scenes from files: images with a mask of classes, read when they are asked for."""
