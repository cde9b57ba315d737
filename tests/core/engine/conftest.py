"""What the tests of the engine share."""

import pytest

TRAINING = ("export", "generate", "mlx", "models", "tasks", "training")


@pytest.fixture(scope="module", autouse=True)
def runs_of_these_folders_are_light(request):
    if request.path.parent.name in TRAINING:
        request.getfixturevalue("light_runs")
