"""Claims of Jernite et al. (ICLR 2017) on variable computation: Tables 1 to 3, Figures 2 to 5, section 4.2."""

from experiments import bit_lm, music
from experiments import variable_computation as characters
from experiments.report.claims.paper import Paper, Plot, Study
from experiments.report.papers.variable_computation_networks import (
    ANNEALED_GRUS,
    ANNEALED_GUIDE,
    ANNEALED_RNNS,
    ANNEALED_TARGETS,
    ANNEALED_VC,
    ANNEALED_VCGRU,
    BIT_NETWORKS,
    BUFFERED,
    CHAR_NETWORKS,
    FIGURE_2,
    FIGURE_3,
    FIGURE_4,
    FIGURE_5,
    GRU_CURVE,
    OTHER_VC,
    PUBLISHED_TUNES,
    RNN_512,
    RNN_BITS_CURVE,
    RNN_CURVE,
    SMALL_BITS,
    SMALL_GUIDE,
    SMALL_VC,
    SMALL_VCGRU,
    TUNES,
)
from experiments.report.papers.variable_computation_relations import RELATIONS
from experiments.report.papers.variable_computation_rows import ROWS
from experiments.report.papers.variable_computation_takeaways import remarks, takeaways

STUDIES = (
    Study(
        "variable_computation",
        "Characters of the Penn Treebank, small networks",
        "bits_per_character",
        "validation bits per character",
        "{:.3f}",
        (
            SMALL_VC,
            SMALL_GUIDE,
            *OTHER_VC.values(),
            *RNN_CURVE,
            SMALL_VCGRU,
            *GRU_CURVE,
            ANNEALED_VC,
            ANNEALED_GUIDE,
            *ANNEALED_TARGETS.values(),
            *ANNEALED_RNNS,
            ANNEALED_VCGRU,
            *ANNEALED_GRUS,
        ),
        tuple(epoch * characters.EPOCH for epoch in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
        levels={"published test, VCRNN-1024": 1.46, "published test, RNN-760": 1.47},
        tested=True,
    ),
    Study(
        "variable_computation_published",
        "Characters of the Penn Treebank, networks of the published size",
        "bits_per_character",
        "validation bits per character",
        "{:.3f}",
        (*CHAR_NETWORKS.values(), RNN_512),
        tuple(epoch * characters.EPOCH for epoch in (1, 2, 4, 8, 12, 14, 16, 18, 20)),
        levels={"published test, VCRNN-1024": 1.46, "published test, RNN-760 and RNN-1024": 1.47},
        tested=True,
    ),
    Study(
        "bit_lm",
        "Bits of the Penn Treebank",
        "bits_per_character",
        "validation bits per character",
        "{:.3f}",
        (*BIT_NETWORKS.values(), SMALL_BITS, *RNN_BITS_CURVE, *BUFFERED.values()),
        tuple(epoch * bit_lm.EPOCH for epoch in (1, 2, 3, 4, 8, 12, 16, 20)),
        levels={"8 times the published test, VCRNN-1000": 8 * 0.215, "8 times the published test, RNN-100": 8 * 0.287},
        tested=True,
    ),
    Study(
        "music",
        "Melodies",
        "perplexity",
        "validation perplexity",
        "{:.2f}",
        tuple(TUNES.values()),
        tuple(epoch * music.EPOCH for epoch in (1, 2, 4, 6, 8, 10, 12, 16, 20)),
        levels={f"published test, {name} (other tunes)": perplexity for name, (perplexity, _) in PUBLISHED_TUNES.items()},
        tested=True,
    ),
)

PLOTS = (
    Plot("Figure 1", "a drawing of two steps of a unit with variable computation", "no measurement"),
    Plot("Figure 2, top", "which dimensions are updated at which bit", FIGURE_2, SMALL_BITS.name),
    Plot("Figure 2, middle", "the same with 8 buffer bits", FIGURE_2, BUFFERED[8].name),
    Plot("Figure 2, bottom", "the same with 24 buffer bits", FIGURE_2, BUFFERED[24].name),
    *(Plot(f"Figure 3, {language}", "computation by character", FIGURE_3, language) for language in ("English", "Czech", "German")),
    *(
        Plot(f"Figure 4, {language}", "bits per character by operations: RNN, learn, guide", FIGURE_4, language)
        for language in ("Czech", "German")
    ),
    Plot("Figure 5", "computation by character, and morphemes", FIGURE_5),
)

PAPER = Paper(
    name="variable_computation",
    title="Variable computation",
    citation="Jernite, Grave, Joulin and Mikolov, *Variable Computation in Recurrent Neural Networks*, ICLR 2017",
    rows=ROWS,
    relations=RELATIONS,
    studies=STUDIES,
    plots=PLOTS,
    telling="operations_variable_computation.png",
    caption="Test bits per character by operations on the Penn Treebank: markers are seeds, open with the hard mask; lines join targets of "
    "m, or sizes",
    takeaways=takeaways,
    remarks=remarks,
    central={
        "VCRNN-1024 > RNN-760": "VCRNNs are better than RNNs of as many operations on characters",
        "VCGRU-1024 > GRU-458": "VCGRUs are better than GRUs of as many operations on characters",
    },
)
