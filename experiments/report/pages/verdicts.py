"""The page that says what each verdict means, and by which rules claims are judged."""

VERDICTS = """\
# What a verdict means

Every quantity of a row has a verdict of its own, and so has every ordering of two models. Verdicts are computed from all kept seeds.
[Overview](../../REPRODUCTION.md)

| verdict | meaning |
| --- | --- |
| reproduced | of a value: every seed agrees, trained as long as the claim says; of an ordering: the mean advantage is significant |
| reproduced by k of n seeds | of a value: the others disagree, diverged, decide nothing, or ended too early |
| undecided | an ordering at the published size whose mean advantage is significant neither way |
| reached, not converged | the value was reached, but training was cut before the end of its preset, or the last evaluation is the best |
| one seed only | an ordering at the published size that rests on one pair of runs, or on one run and a number of other authors |
| not reproduced | of a value: no seed agrees; of an ordering: neither model shows it, as on a task that neither learns |
| contradicted | the opposite was measured: a network that fails in the paper succeeds, or an ordering is reversed significantly |
| diverged | every seed met a loss that is not finite; if only some seeds did, these count as failed |
| smaller scale | fewer updates, a smaller network, less or other data, own or guessed settings (at any size), or too few full runs |
| not yet run | no run is kept |
| not runnable here | quoted from other authors, or nothing here trains or computes it; the reason is below the table |
| no claim | the paper has no value for this metric, or it follows from a setting; ours is shown for information |

Counts say *reproduced by some seeds* for *reproduced by k of n seeds*.

## Values

- A value agrees if it is as good as the published one at the printed decimals, or within 0.003 of one that is read off a figure.
- If the paper reports a failure (such as a perplexity of 9.88 for an LR-GRU), a value agrees if it exceeds 1.5 times the worst baseline. A
  value as low as the baseline contradicts the paper.
- RNN-d is the equivalent size: an Elman RNN of d units has as many multiplications per step, as the paper counts them. For a cell that
  learns its schedule, RNN-d agrees if it differs from the published one by at most 10 %. RNN-d of a cell that updates its whole state at
  every step has no verdict, because it follows from the width. RNN-d has no verdict either if the paper does not print the target of m, or
  if we chose the target to match RNN-d.
- m is the share of the state that a step updates. Means of m on groups of symbols agree within 0.1.
- Epochs until the best one agree for the LRU family, which the paper calls fast, if they are no more than published. For other models they
  agree if they differ by a quarter at most.
- If the paper does not print how a network was trained, a recipe of this project stands in. No value reproduces such a row: a run counts as
  one at smaller scale, which agrees or disagrees. In such a row, one seed decides nothing. Neither does a value that is not as good as the
  published one, if the learning rate is constant and the last evaluation of a run is its best.
- If the paper has words only, a claim names its threshold: *mostly ignored* is less than half, *most of the computation* more than half,
  *everything* 95 %, *substantially* 5 %, *open* gates a mean of 0.5, *switching* gates a standard deviation of 0.05, *harder to optimize*
  2 %, *almost perfect* 99.97 % of all symbols, *equally good* 0.04 nats (lattice networks) or 0.025 in perplexity (tied GRUs), *near* or
  *relatively close to the state of the art* half a point, *overfits* a held-out loss of 0.001, *does not overfit* 0.02 nats.
- If the paper sets no limit to the updates, an event that has not happened yet is neither for nor against the paper. If
  the paper speaks of training sequences, errors on held-out sequences are neither for nor against it.
- **Weaker models**: if an ordering calls a model the weaker one, such as a baseline, a value better than published counts for the model and
  against the ordering. Its verdict stays the same. If the mean is better at the printed decimals, the table says by how much, and by how
  much the nearest stronger model leads in the paper. The overview counts these scores. Those at smaller scale are left out,
  unless only the recipe is ours.
- Accuracies have a sampling error: about 0.1 points at 98.8 % of 10,000 images. Perfect accuracy is read from whole evaluations.
- A value without a published one has no verdict.
- If a network, its data or its training is smaller than published, its values are *not judged*. A run of the published size with a recipe
  of this project agrees, disagrees or is undecided. If its target of m is a guess, its score is not judged either, because it depends on
  the target.

## Orderings

Both models are compared seed by seed. The table has the mean advantage, its standard error over seeds, and how many seeds agree.

- **The test** is Student's on pairs, two-sided, at 5 % for each ordering by itself. Nothing is significant if a seed is undecided.
- **At the published size**, an ordering is *reproduced* if the mean advantage is significantly positive, *contradicted* if it is
  significantly negative, and *undecided* otherwise. "No worse" is held to the same test.
- **At smaller scale**, it *agrees*, *disagrees* or is *undecided* in the same way. It is *not judged* if no seed decides anything, for
  example because longer training may change which model is ahead.
- **Table only** marks orderings that a table of the paper has, and its text does not state.
- **Signs**: ">" stands for better, and ">=" for no worse. In the tables of the lattice paper, "<" compares the number that is named. A
  negative advantage is against the paper.
- **One seed** decides no ordering at any size. (A value of the published size is judged with one seed, too, which is then printed.)
- **Two seeds** are never significant. A test with one degree of freedom depends on how near two numbers happen to be.
- **Equal operations**: usual networks of several sizes give scores at several numbers of operations. Between the two nearest ones, the
  score is read off a straight line over the logarithm of the operations. Such curves are convex, so the line is a little above the curve,
  which favours the network with variable computation. The ordering is judged even if the target of m is a guess, because the usual network
  has as many operations at any target.
- **Short training**: networks that were trained for less than a tenth of the updates decide nothing. Neither do losses and epochs at the
  cap on epochs, if more epochs could change which model is ahead. In other runs at smaller scale, a pair is undecided if longer training
  could reverse it: the network that is behind improved by more than its gap in its last evaluation.
- **Divergence**: a run that diverged loses against a run that did not diverge and came further. A pair with such a run has no number and
  cannot be significant.
- **Events**: an event, such as a met criterion, is dated by the first evaluation that shows it. It happened after the previous evaluation.
  If one network gets there only after the other one's training has ended, at the length that the claim asks for, the pair decides nothing.
- **Caps**: if a run reached the cap, the test uses the cap as its value. So means up to the cap are compared (restricted means), and the
  mean advantage is a bound.
- **Ties**: advantages that are equal for all seeds have no spread. For events, the test then uses the interval between evaluations as the
  standard deviation. For other metrics, such ties cannot be significant.
- All of three seeds agree by chance one time in eight, if two models are equal. So that alone reproduces nothing.
- **Yes or no**: of outcomes that a network has or does not have, such as that it ends above the predictor without memory, three seeds
  cannot be significant. Such orderings are not counted as tested; the text about weight normalization has the outcomes of all networks.
- **Stand-ins** are claims of their own, beside those of the published size: a VCRNN of 256 units on characters and one of 128 on bits
  against RNNs of as many operations, and four points on English in place of Figure 4 of that paper. In other orderings, such as those of
  depths, VCGRUs and lattice networks, smaller networks stand in within the claim, whose verdict is then one at smaller scale.
- Orderings that the lattice paper claims, but that do not hold in its own table, are left out and listed on its page.

## Means

Ours are means ± standard deviations (n - 1) over seeds. *Mean of 2 of 3 seeds* leaves out seeds without the value. *At least* marks a value
at a cap.

If a seed was run twice, a run that reached the length of the claim counts. Of several such runs, the one configured for exactly this length
counts; if there is none, the one with the smallest configured number of updates. It does not matter how a run ended. If no run reached the
length, the longest one counts. Runs of one seed differ between machines, because rounding differs. A bound (*at least*) is printed without
±.

## Configurations

A run counts for a claim if all its settings are those of the claim. Settings that cannot change results (devices, memory, checkpoints) may
differ. The evaluation interval must agree if it decides when the learning rate is halved, when training ends, or which evaluation is best.
"""
