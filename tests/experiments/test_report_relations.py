"""Verdicts on orderings of two networks, and which version of an ordering is judged."""

import pytest
from kept_runs import in_training, judged, kept_run, relation, write

from experiments import adding, char_lm, copy_memory, permuted_mnist
from experiments.report.claims.contests import Final
from experiments.report.claims.pairs import Pair
from experiments.report.claims.relations import Measure, Relation, Versus, Within
from experiments.report.claims.rows import Evidence, Network
from experiments.report.claims.verdicts import Finding, Status
from experiments.report.kept.records import load
from experiments.report.pages import overview
from experiments.report.papers import highway, low_rank
from experiments.report.papers import low_rank_copying as copying

COPY = copy_memory.EXPERIMENT
ADD = adding.EXPERIMENT
IMAGES = permuted_mnist.EXPERIMENT
TEXT = char_lm.EXPERIMENT
LAST = copying.OF_FIXED[copying.URNN].config.train.updates


def test_seeds_are_paired(tmp_path):
    for seed, (one, other) in enumerate(((20_000, 25_000), (22_000, 21_000), (18_000, 26_000))):
        kept_run(tmp_path, COPY, "--preset unitary-variable-length", seed, {one: 9e-4}, "loss", {}, stopped="criterion")
        kept_run(tmp_path, COPY, "--preset paper-variable-length", seed, {other: 9e-4}, "loss", {}, stopped="criterion")
    kept_run(tmp_path, COPY, "--preset paper-variable-length", 7, {1_000: 9e-4}, "loss", {}, stopped="criterion")
    found = relation(tmp_path, "the uRNN learns faster")
    assert (str(found.verdict), found.seeds, found.advantage) == ("undecided (2 of 3 seeds agree)", "2 of 3", "+4,000 ± 2,646")


def test_a_run_that_never_got_there_took_longer_than_it_ran(tmp_path):
    kept_run(tmp_path, COPY, "--preset unitary-variable-length", 0, {30_000: 2e-3}, "loss", {})
    kept_run(tmp_path, COPY, "--preset paper-variable-length", 0, {20_000: 9e-4}, "loss", {}, stopped="criterion")
    found = relation(tmp_path, "the uRNN learns faster")
    assert (str(found.verdict), found.advantage) == ("one seed only (against the paper)", "at most -10,000")


def test_nothing_is_said_of_a_run_that_is_shorter_than_the_other_took(tmp_path):
    kept_run(tmp_path, COPY, "--preset unitary-variable-length", 0, {6_000: 2e-3}, "loss")
    kept_run(tmp_path, COPY, "--preset paper-variable-length", 0, {20_000: 9e-4}, "loss", {}, stopped="criterion")
    found = relation(tmp_path, "the uRNN learns faster").verdict
    assert (found.status, found.finding) == (Status.SMALLER, Finding.NONE)


def test_a_seed_whose_other_run_was_cut_short_does_not_count_against_the_relation(tmp_path):
    for seed, last in enumerate((26_000, 6_000)):
        kept_run(tmp_path, COPY, "--preset unitary-variable-length", seed, {20_000: 9e-4}, "loss", {}, stopped="criterion")
        kept_run(tmp_path, COPY, "--preset paper-variable-length", seed, {last: 2e-3}, "loss")
    found = relation(tmp_path, "the uRNN learns faster").verdict
    assert str(found) == "smaller scale (6,000 to 20,000 of 30,000 updates; 1 of 2 seeds agree, 1 undecided): undecided"


def test_unfinished_networks_are_compared_at_the_last_common_update(tmp_path):
    kept_run(tmp_path, IMAGES, "--preset paper", curve={48_000: 0.30, 264_000: 0.75}, score="accuracy")
    kept_run(tmp_path, IMAGES, "--preset paper --model.parametrization dense", curve={48_000: 0.40}, score="accuracy", name="gru")
    found = relation(tmp_path, "LRD-GRU > full GRU")
    assert str(found.verdict) == "smaller scale (48,000 of 325,000 updates; one seed, against the paper)"
    assert found.advantage == "-10.0 points"


def test_nothing_is_said_before_a_tenth_of_the_training(tmp_path):
    for update, finding in ((32_400, Finding.NONE), (32_700, Finding.ONE_SEED)):
        for name, kind in (("lrd", "low_rank_plus_diagonal"), ("gru", "dense")):
            flags = f"--preset paper --model.parametrization {kind}"
            kept_run(tmp_path / str(update), IMAGES, flags, curve={update: 0.3 + 0.1 * (name == "lrd")}, score="accuracy", name=name)
        assert relation(tmp_path / str(update), "LRD-GRU > full GRU").verdict.finding is finding


def test_validation_does_not_stand_in_where_the_published_one_has_the_opposite_order(tmp_path):
    for name, kind in (("gru", "dense"), ("lr", "low_rank")):
        kept_run(tmp_path, IMAGES, f"--preset paper --model.parametrization {kind}", curve={264_000: 0.9}, score="accuracy", name=name)
    assert relation(tmp_path, "full GRU > LR-GRU").verdict.finding is Finding.NONE


@pytest.mark.parametrize(("plain", "finding"), [(9.0, Finding.ONE_SEED), (0.0, Finding.NONE)])
def test_fewer_recoveries_are_more_stable_unless_both_have_none(plain, finding, tmp_path):
    counting = kept_run(tmp_path, COPY, f"--preset weight-norm {copying.COUNTED}", curve={35_000: 2e-3}, test={})
    in_training(counting, "recoveries", lambda _: 0.0)
    path = kept_run(tmp_path, COPY, "--preset paper", curve={28_000: 2e-3, 35_000: 1e-3}, test={})
    in_training(path, "recoveries", lambda _: plain)
    assert relation(tmp_path, f"{copying.STABLER} (fixed").verdict.finding is finding


@pytest.mark.parametrize(
    ("normalized", "plain", "advantage", "finding"),
    [
        ((0.30, 0.35, 0.33), (0.01, 0.30, 0.02), -0.67, Finding.OPEN),
        ((0.01, 0.02, 0.03), (0.30, 0.31, 0.32), 1.0, Finding.OPEN),
        ((0.01, 0.02, 0.03), (0.03, 0.02, 0.01), 0.0, Finding.NONE),
    ],
)
def test_a_network_that_ends_worse_than_one_without_memory_is_less_stable(normalized, plain, advantage, finding, tmp_path):
    for preset, losses in (("weight-norm", normalized), ("paper", plain)):
        for seed, last in enumerate(losses):
            kept_run(tmp_path, COPY, f"--preset {preset}", seed, {10_000: 0.02, 35_000: last}, "loss", {}, name=f"{preset}{seed}")
    found = relation(tmp_path, f"{copying.ENDS_BELOW} (fixed")
    assert all(one.relation.sentence != found.relation.sentence for one in overview._testable(judged(tmp_path)))
    assert found.difference.mean == pytest.approx(advantage, abs=0.01)
    assert found.verdict.finding is finding
    said = low_rank.PAPER.takeaways(judged(tmp_path))[2].whole
    counts = [sum(loss > 0.04 for loss in losses) for losses in (normalized, plain)]
    endings = f"{counts[0]} and {counts[1]} of 3 at the published learning rate (fixed lag)."
    assert f"without memory, with and without weight normalization: {endings}" in said
    assert f"with weight normalization and without: {counts[0]} and {counts[1]} of 3 on fixed lag" in said


def test_a_published_tie_is_no_worse_at_the_printed_decimal(tmp_path):
    for depth, perplexity in ((8, 68.46), (9, 68.54)):
        kept_run(
            tmp_path, highway.WORDS, f"--preset untied-{depth}", curve={663_500: 70.0}, test={"perplexity": perplexity}, stopped="patience"
        )
    (pair,) = relation(tmp_path, "depth helps: 9 no worse than 8, untied", highway.PAPER).pairs
    assert (pair.advantage, pair.agrees) == (0.0, True)


def test_equal_advantages_of_events_are_tested_with_the_interval_between_evaluations(tmp_path):
    for seed in range(3):
        kept_run(tmp_path, COPY, "--preset unitary", seed, {1_000: 9e-4, 2_000: 1e-4}, "loss", {}, name=f"urnn{seed}")
        kept_run(tmp_path, COPY, "--preset paper", seed, {20_000: 9e-4}, "loss", {}, name=f"lrd{seed}")
    found = relation(tmp_path, "the uRNN of about 6,500 parameters converges faster than the LRD-GRU")
    assert [(pair.advantage, pair.resolution) for pair in found.pairs] == [(19_000, 500)] * 3
    assert found.verdict.finding is Finding.FOR


def test_finished_networks_are_compared_on_the_test_part(tmp_path):
    for seed in (0, 1):
        kept_run(tmp_path, IMAGES, "--preset paper", seed, {325_000: 0.9}, "accuracy", {"accuracy": 0.93 + 0.01 * seed})
        dense = "--preset paper --model.parametrization dense"
        kept_run(tmp_path, IMAGES, dense, seed, {325_000: 0.99}, "accuracy", {"accuracy": 0.92}, name=f"gru{seed}")
    found = relation(tmp_path, "LRD-GRU > full GRU")
    assert (str(found.verdict), found.advantage) == ("undecided (2 of 2 seeds agree)", "+1.5 ± 0.5 points")


def test_a_diverged_run_loses(tmp_path):
    path = kept_run(tmp_path, ADD, "--preset paper", curve={8_500: 0.0001})
    write(path / "failure.json", {"update": 8_786, "what": "the training loss is nan"})
    kept_run(tmp_path, ADD, "--preset paper --model.parametrization low_rank", curve={14_500: 0.01}, score="loss", test={}, name="lr")
    assert str(relation(tmp_path, "LRD >= LR (adding)").verdict) == "one seed only (against the paper, 1 run diverged)"


@pytest.mark.parametrize(
    ("updates", "test", "verdict"),
    [
        (4_000, None, "smaller scale (4,000 of 14,500 updates; one seed; 1 run diverged): not judged"),
        (9_000, None, "smaller scale (8,500 of 14,500 updates; one seed, as the paper says; 1 run diverged)"),
        (14_500, {}, "one seed only (as the paper says, 1 run diverged)"),
    ],
)
def test_a_run_wins_against_a_diverged_one_only_if_it_came_further(updates, test, verdict, tmp_path):
    path = kept_run(tmp_path, ADD, "--preset paper --model.parametrization low_rank", curve={8_500: 0.0001}, name="lr")
    write(path / "failure.json", {"update": 8_786, "what": "the training loss is nan"})
    kept_run(tmp_path, ADD, "--preset paper", curve={updates: 0.01}, score="loss", test=test)
    assert str(relation(tmp_path, "LRD >= LR (adding)").verdict) == verdict


def test_a_diverged_run_never_gets_there(tmp_path):
    kept_run(tmp_path, COPY, "--preset unitary-variable-length", 0, {20_000: 9e-4}, "loss", {}, stopped="criterion")
    path = kept_run(tmp_path, COPY, "--preset paper-variable-length", 0, {6_000: 2e-3}, "loss")
    write(path / "failure.json", {"update": 6_100, "what": "the training loss is nan"})
    found = relation(tmp_path, "the uRNN learns faster")
    assert (str(found.verdict), found.advantage) == ("one seed only (as the paper says, 1 run diverged)", "–")


@pytest.mark.parametrize(("tied", "advantage", "agrees"), [(2.92, "+0.005", True), (2.80, "-0.075", False), (2.95, "-0.025", False)])
def test_equally_good_is_two_sided(tied, advantage, agrees, tmp_path):
    """The tied network is too good or too bad if it differs by more than the table's 0.02, rounded."""
    for preset, perplexity in (("lrd-1000-64-tied", tied), ("paper", 2.90)):
        kept_run(tmp_path, TEXT, f"--preset {preset}", curve={5_000: 1.0}, test={"sentence_perplexity": perplexity}, stopped="patience")
    found = relation(tmp_path, "tied and untied are equally good at the same state size (1000/64)")
    assert (found.advantage, found.pairs[0].agrees) == (advantage, agrees)


def test_a_network_that_diverged_is_not_equally_good(tmp_path):
    kept_run(tmp_path, TEXT, "--preset lrd-1000-64-tied", curve={200_000: 1.0}, test={"sentence_perplexity": 2.9}, stopped="patience")
    path = kept_run(tmp_path, TEXT, "--preset paper", curve={10_000: 1.0})
    write(path / "failure.json", {"update": 12_000, "what": "the training loss is nan"})
    (pair,) = relation(tmp_path, "tied and untied are equally good at the same state size (1000/64)").pairs
    assert (pair.agrees, pair.failed) == (False, 1)


def test_a_run_of_a_shorter_claim_might_have_been_faster(tmp_path):
    kept_run(tmp_path, COPY, "--preset unitary --model.cell unitary --model.size 128", 0, {LAST: 2e-3}, "loss", {})
    kept_run(tmp_path, COPY, "--preset paper", 0, {20_000: 9e-4}, "loss", {}, stopped="criterion")
    found = relation(tmp_path, "the uRNN of about 6,500 parameters converges faster than the LRD-GRU (fixed")
    assert (found.verdict.status, found.verdict.finding, found.advantage) == (Status.ONE_SEED, Finding.NONE, "not known")


def test_two_runs_that_never_get_there_are_not_at_smaller_scale(tmp_path):
    for preset in ("unitary-variable-length", "paper-variable-length"):
        kept_run(tmp_path, COPY, f"--preset {preset}", 0, {30_000: 2e-3}, "loss", {})
    assert str(relation(tmp_path, "the uRNN learns faster").verdict) == "one seed only (neither shows it)"


def test_an_unknown_advantage_is_not_part_of_the_mean(tmp_path):
    for seed, last in enumerate((26_000, 6_000)):
        kept_run(tmp_path, COPY, "--preset weight-norm-variable-lag", seed, {20_000: 9e-4}, "loss", {}, stopped="criterion")
        kept_run(tmp_path, COPY, "--preset paper-variable-lag", seed, {last: 2e-3}, "loss")
    found = relation(tmp_path, f"{copying.FASTER_IF_NORMALIZED} (variable lag")
    assert found.advantage == "at least +6,000 (mean of 1 of 2 seeds)"


def test_recoveries_of_unfinished_runs_may_still_change(tmp_path):
    in_training(kept_run(tmp_path, COPY, f"--preset weight-norm {copying.COUNTED}", curve={8_000: 2e-3}), "recoveries", lambda _: 0.0)
    in_training(kept_run(tmp_path, COPY, "--preset paper", curve={8_000: 2e-3}), "recoveries", lambda _: 3.0)
    found = relation(tmp_path, f"{copying.STABLER} (fixed").verdict
    assert str(found) == f"smaller scale ({copying.GUESSED}; with recovery; 8,000 of 35,000 updates; one seed, as the paper says)"


def test_equal_is_enough_where_the_paper_says_no_worse(tmp_path):
    for name, kind in (("lrd", "low_rank_plus_diagonal"), ("lr", "low_rank")):
        kept_run(tmp_path, ADD, f"--preset paper --model.parametrization {kind}", curve={14_500: 0.001}, score="loss", test={}, name=name)
    assert str(relation(tmp_path, "LRD >= LR (adding)").verdict) == "one seed only (as the paper says)"


@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize(("better", "worse", "may_change"), [(True, False, "better"), (False, True, "none"), (False, False, "none")])
def test_a_gap_that_one_more_evaluation_may_close_decides_nothing(better, worse, may_change, higher, tmp_path):
    """The network that the paper calls better is 0.01 behind. It decides nothing if that one gained 0.1 in its last evaluation."""
    sign = -1 if higher else 1
    networks = []
    for name, gains, test in (("low_rank", better, 0.41), ("low_rank_plus_diagonal", worse, 0.40)):
        flags = f"--preset paper --model.parametrization {name}"
        curve = {14_400: sign * (0.5 if gains else 0.4), 14_500: sign * 0.4}
        kept_run(tmp_path, ADD, flags, 0, curve, "loss", {"loss": sign * test}, name=name)
        networks.append(Network(name, ADD, flags))
    contest, evidence = Final("loss", "loss", "{}", higher=higher), Evidence(load(tmp_path))
    (small,), (published,) = (Versus(*networks, scale=scale).pairs(contest, evidence, strict=True) for scale in ("smaller", ""))
    assert (small.agrees, small.may_change) == ((None, True) if may_change == "better" else (False, False))
    assert (published.agrees, published.may_change) == (False, False)
    cut = Relation("Table 1", "better", contest, (Versus(*networks, scale="smaller"),)).paired(evidence).qualifier
    assert cut == ("longer training may change which is ahead" if may_change == "better" else "")


@pytest.mark.parametrize(("before", "may_change"), [(0.375, False), (0.4375, True)])
def test_a_gain_as_large_as_the_gap_does_not_close_it(before, may_change, tmp_path):
    """Both numbers are sums of powers of two, so that the gain equals the gap of 0.125 exactly, or exceeds it."""
    networks = []
    for name, curve in (("low_rank", {14_400: before, 14_500: 0.25}), ("low_rank_plus_diagonal", {14_500: 0.125})):
        flags = f"--preset paper --model.parametrization {name}"
        kept_run(tmp_path, ADD, flags, 0, curve, "loss", {"loss": curve[14_500]}, name=name)
        networks.append(Network(name, ADD, flags))
    (pair,) = Versus(*networks, scale="smaller").pairs(Final("loss", "loss", "{}"), Evidence(load(tmp_path)), strict=True)
    assert (pair.advantage, pair.may_change) == (-0.125, may_change)


class Source:
    """A version of a relation that has these pairs, of runs that have only begun or not."""

    def __init__(self, *pairs, begun=False):
        self.found, self.has_only_begun = list(pairs), lambda contest, evidence: begun

    def pairs(self, contest, evidence, strict):
        return self.found

    def cut(self, contest, evidence):
        return f"{len(self.found)} cut"

    def smaller(self, evidence):
        return f"{len(self.found)} smaller"

    def planned(self, seeds):
        return []


def test_the_first_version_with_pairs_is_judged_and_said_to_be_cut_only_if_it_is():
    one, other, early = Pair(0, 1.0, True), Pair(1, 1.0, True), Pair(2, 1.0, True, settled=False)
    for versions, expected in (
        ((Source(one), Source(one, other)), ([one], "1 smaller", "")),
        ((Source(), Source(one, other)), ([one, other], "2 smaller", "")),
        ((Source(), Source(one, early), Source(one)), ([one, early], "2 smaller", "2 cut")),
        ((Source(), Source()), ([], "", "")),
        ((Source(one, early, begun=True), Source(one)), ([one], "1 smaller", "")),
        ((Source(one, early, begun=True), Source()), ([one, early], "2 smaller", "2 cut")),
        ((Source(one, begun=True), Source(one, other)), ([one], "1 smaller", "")),  # settled: more training would change nothing
    ):
        assert Relation("Table 1", "better", None, versions).paired(Evidence()) == expected


def test_how_far_training_went_is_told_beside_the_longer_of_both(tmp_path):
    kinds = {"low_rank_plus_diagonal": ("one", 100, (30, 60)), "low_rank": ("other", 200, (50, 40))}
    for kind, (name, _, lasts) in kinds.items():
        for seed, last in enumerate(lasts):
            kept_run(tmp_path, ADD, f"--preset paper --model.parametrization {kind}", seed, {last: 0.01}, name=f"{name}{seed}")
    networks = [
        Network(name, ADD, f"--preset paper --model.parametrization {kind} --train.updates {updates}")
        for kind, (name, updates, _) in kinds.items()
    ]
    evidence = Evidence(load(tmp_path))
    assert Versus(*networks).cut(Final("loss", "loss", "{}"), evidence) == "30 to 40 of 200 updates"
    assert Within(networks[0], lambda run: 1.0, lambda run: 0.0).cut(Measure("figure", "{}"), evidence) == "60 of 100 updates"


@pytest.mark.parametrize(("updates", "smaller"), [(32_000, True), (33_000, False)])
def test_orderings_of_runs_that_have_only_begun_do_not_displace_smaller_ones(updates, smaller, tmp_path):
    larger, small = (Network(name, IMAGES, f"--preset paper {flags}") for name, flags in (("a", ""), ("b", "--model.size 64")))
    for network in (larger, small):
        kept_run(tmp_path, IMAGES, network.flags, 0, {updates: 0.9}, "accuracy", name=network.name)
    versions = Versus(larger, small), Versus(larger, small, scale="smaller")
    accuracy = Final("validation accuracy", "accuracy", "{}", higher=True)
    assert versions[0].has_only_begun(accuracy, Evidence(load(tmp_path))) is smaller


def test_an_ordering_has_only_begun_if_all_of_its_seeds_have(tmp_path):
    wide, narrow = (Network(name, IMAGES, f"--preset paper {flags}") for name, flags in (("a", ""), ("b", "--model.size 64")))
    for network in (wide, narrow):
        for seed, updates in enumerate((32_000, 33_000)):
            kept_run(tmp_path, IMAGES, network.flags, seed, {updates: 0.9}, "accuracy", name=f"{network.name}{seed}")
    accuracy = Final("validation accuracy", "accuracy", "{}", higher=True)
    assert not Versus(wide, narrow).has_only_begun(accuracy, Evidence(load(tmp_path)))
