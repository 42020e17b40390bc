"""The text of docs/reproduction.md; its numbers come from the results."""

from __future__ import annotations

__all__ = ["INTRODUCTION", "NOTES", "REASONS"]

INTRODUCTION = """
# The paper's experiments, reproduced

Every table and figure of Jalali & Kasneci, *Entry Dependent Expert Selection in Distributed Gaussian
Processes Using Multilabel Classification*, computed with this library. `gpexperts reproduce --list`
lists the experiments, `gpexperts reproduce NAME` runs one, `gpexperts reproduce all` runs all; finished
runs are not repeated. This page is written from the CSV files in `docs/reproduction` by

    gpexperts reproduce --page docs/reproduction.md --out docs/reproduction

Each verdict is computed from the numbers by a rule in `gpexperts.paper.claims`.

The settings are those of the paper (`gpexperts.paper.settings`): a squared exponential kernel with one
length scale per input and white noise, trained jointly on all parts; k-means parts; λ = 0.1 for the
graph, which is learned on the test inputs; Euclidean distance for KNN; one hidden layer of 50 units for
DNN. Three points are open in the paper or differ:

- All methods of a run share the hyperparameters of the joint training, also GRBCM and the full GP.
  Methods differ in selection and aggregation only.
- Rules aggregate the latent predictions of the experts, and the noise is added once, at the end. The
  matrix R of NPAE includes the observation noise on its diagonal; without it, NPAE is not the best
  linear predictor.
- Seeds change the split (if it is not fixed), the start of k-means and the network. The standard
  deviation in the tables is mostly due to the split, which all methods share. A smaller difference
  between methods can therefore be significant.

Times are CPU seconds of all threads, measured on two shared cores; a dash means not measured.
"""

NOTES: dict[str, str] = {
    "concrete-baselines": """
The figure of the paper has no printed numbers; its table of independent rules (see concrete-ci) is for M
= 10. "full GP" uses the hyperparameters of the experts, "full GP, own θ" was trained on all rows.
""",
    "selection-scheme": """
Experts are numbered from left to right. GGM selects the same three experts for all queries, also in
regions where they have no data. KNN and DNN select experts for each query.
""",
    "concrete-ci": """
In the paper the MSLL of RBCM is positive, worse than the trivial predictor; here it is close to that of
NPAE. A rule that aggregates noisy instead of latent variances counts the noise once per expert and
becomes overconfident. All three rules are better here than in the paper, so that selection improves them
less.
""",
    "synthetic-intervals": """
Between 0 and 1, where the data are, NPAE, KNN and DNN agree with the full GP; outside, their intervals
are wider. GGM leaves out the experts of whole regions, and its intervals there are close to the prior.
""",
    "cost": """
An exponent is the slope over the last three sizes of a sweep. The paper counts the solution of the K × K
systems, O(n_t K³). Most of the time is spent on forming R(x*), K² m² per query, and for small K on a
part that is linear in K. Selection by KNN takes about a millisecond for every M. GLasso is not yet cubic
at M = 128.
""",
    "pumadyn": """
The errors of all dependent methods are within about 2 % of the paper, mostly above it. The result of
k-means and the training of θ cause differences of this size. The independent rules are better here than
in the paper. GRBCM, whose experts share a random communication set, is better than NPAE; in the paper it
is worse.
""",
    "real-world": """
Dots are our results, diamonds those of the paper; "KNN-7" selects 70 % of the experts.

- *GGM* is worse than in the paper on all data sets except parkinsons: no fixed set of half of these
  parts is good for all queries (see fixed-sets).
- *airfoil*: otherwise as in the paper or better; the larger SMSE of RBCM is within the variation over
  splits (see fixed-sets).
- *parkinsons*: the errors are almost 0, compared with 0.21 in the paper. The inputs include the number
  of the subject and the time of the test, and the target was interpolated in time for each subject. The
  trained kernel (in the CSV file) ignores the 16 voice measures, uses subject, age, sex and time, and
  has almost no noise. The model of the paper was different. All methods that select the expert of a
  subject have almost no error; GGM does not always select it. The intervals of NPAE are too wide here,
  because its nugget, 1e-8 of the prior variance, is larger than the noise.
- *pol*: worse than in the paper for all rules except GPoE. With the nearest expert alone the error is
  smaller than the best one of the paper, and each further expert increases it (see pol-k). The target
  has eleven levels and a stationary kernel does not fit it, so that far experts have wrong means and
  small variances (coverage is below 95 %). The settings of the paper are not known. Random parts, parts
  of the unscaled inputs, and length scales 50 % longer or 30 % shorter do not reproduce both scores.
- *protein*: with the target RMSD this kernel does not reach the SMSE of the paper. With log(1 + RMSD),
  the target in a widely used collection, it almost does (see protein-target). The numbers of the paper
  are therefore shown beside this variant.
- *sarcos*: the official test rows are all training rows, so that "sarcos-official" measures recall. Most
  numbers of the paper are better than ours. A kernel with shorter length scales and less noise, which
  has a smaller likelihood and larger errors on new rows, exceeds the SMSE and MSLL of the paper (see
  sarcos-recall). "sarcos" leaves the test rows out of training; their neighbours in time remain, so that
  it is still easy.
- *song*: only the first 1,176 rows were available, with M = 8; these numbers cannot be compared with the
  paper. With the whole data set the same command runs the configuration of the paper.
""",
    "consistency": """
Above: k-means parts; below: random parts (to n = 4,000). The means of all rules, also of PoE and BCM,
approach the noise-free function. The inconsistency cited in the paper is that of rules that aggregate
noisy predictions: their variance falls below the noise. With latent predictions PoE and BCM are
consistent here. The std of GPoE stays that of an average expert, and the std of RBCM with random parts
is half as large as it should be. NPAE is closest among the rules without a communication set, but does
not reach the full GP: for parts of fixed size it uses one number per expert, and the ratio of its std to
that of the full GP grows. GRBCM, whose communication set covers the whole range, is closest. GGM is far
from it, because half of the experts cover half of the range.
""",
    "partition": """
On concrete, k-means parts are much better. On pumadyn32nm, where 28 of the 32 inputs are irrelevant,
k-means in all inputs is hardly better than random parts; the differences are in the fourth decimal.
""",
    "fixed-sets": """
With k-means parts no fixed set of experts is good for all queries. Even the best set, chosen with the
test targets, is worse than KNN and NPAE, and on airfoil worse than GGM in the paper. The experts of the
paper must have overlapped more, by longer length scales or other parts. The set that GGM selects is
closer to the median set than to the best one.
""",
    "protein-target": """
The result with log(1 + RMSD) is close to the number of the paper for KNN; the result with RMSD is not.
""",
    "sarcos-recall": """
Factor 1 is the kernel with the highest likelihood; smaller factors overfit the training rows. On the
official split, whose test rows are training rows, the error decreases with the factor, far below 0.0025,
the value of the paper. With the test rows left out of training, the error increases.
""",
    "pol-k": """
The smallest K is the best for both rules; see real-world.
""",
}

REASONS: dict[str, str] = {
    "NPAE beats the independent rules, on concrete": (
        "BCM and RBCM, which aggregate latent variances here, do not differ significantly from NPAE; in the "
        "paper they are much worse. GRBCM is better: its experts also have a communication set."
    ),
    "NPAE beats them on real data": (
        "Not where the kernel does not fit (pol), where the noise is smaller than the nugget of NPAE "
        "(parkinsons), or where the test rows are training rows (sarcos-official). GRBCM is almost as good."
    ),
    "NPAE does not depend on M; the other rules do": (
        "PoE, GPoE and BCM are worse with smaller parts; RBCM and GRBCM, which weight experts by the "
        "information of their data, are not."
    ),
    "KNN and DNN near NPAE faster than GGM": ("A fixed set has no experts in some regions; see fixed-sets."),
    "KNN's and DNN's intervals are NPAE's; GGM's are worse": ("As in the paper."),
    "Softmax beats sigmoid output": (
        "Both rank the experts almost equally, and NPAE is robust to the differences. Neither depends on the "
        "batch size by more than 1 %."
    ),
    "Selection helps the independent rules at no cost": (
        "GPoE improves: uninformative experts no longer have equal weight. RBCM and GRBCM give them "
        "almost no weight in any case."
    ),
    "KNN and DNN beat full NPAE on some sets": (
        "The differences are small, except where the kernel does not fit (pol; see pol-k)."
    ),
    "Selection makes the dependent aggregation affordable": (
        "Half of the experts have a quarter of the pairs; far fewer experts are enough."
    ),
    "GGM, KNN and DNN take about the same time": (
        "Prediction does. In addition, the network must be trained and the graph learned; KNN needs neither."
    ),
    "Disjoint parts beat random ones": (
        "By much on concrete; on pumadyn32nm, where few inputs are relevant, k-means is hardly better than "
        "random parts."
    ),
    "GGM at 70 % comes near NPAE": (
        "On pumadyn32nm, where all experts cover the relevant inputs. On parkinsons the queries of some "
        "subjects have no near expert among the selected ones."
    ),
    "NPAE and selection are consistent; PoE and BCM are not": (
        "PoE and BCM are consistent if they aggregate latent predictions; see the experiment."
    ),
    "Aggregation is O(n_t K³); selection O(M³) by GGM, O(M) by KNN and DNN": (
        "Forming R(x*) takes K² m² operations per query, far more than K³ for usual K; the paper does not "
        "consider the size m of the experts."
    ),
}
