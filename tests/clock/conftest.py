"""Property tests that find the same examples every time."""

from hypothesis import settings

# A busy machine is no failure, and a green suite stays green.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")
