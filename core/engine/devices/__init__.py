"""The devices of this computer: what they can do, which one a run gets, whether they compute rightly."""
