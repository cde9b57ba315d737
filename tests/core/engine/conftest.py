"""What the tests of the engine share."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def all_runs_are_light(light_runs):
    pass
