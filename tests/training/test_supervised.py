"""A real run that is killed at random moments, under a supervisor; `killing.py` does it with several processes, as often as one likes."""

from killing import compare


def test_a_run_that_is_killed_ends_with_the_numbers_of_an_undisturbed_one(tmp_path):
    killed, whole = compare(tmp_path, processes=1, kills=3, seed=0)
    assert killed == whole
    assert (tmp_path / "killed.log").read_text().count("it is started again") == 3
