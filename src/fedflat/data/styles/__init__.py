"""The style of an image, taken from one image and given to another: by frequencies, by colours, in
clusters."""
