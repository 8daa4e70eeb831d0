"""What is learnt: how it is trained, how it is judged, and the one number a run is judged by."""
