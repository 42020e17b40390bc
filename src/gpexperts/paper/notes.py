"""The words of the page of results; its numbers come from the results."""

from __future__ import annotations

__all__ = ["INTRODUCTION", "NOTES", "REASONS"]

INTRODUCTION = """
# The paper's experiments, reproduced

Every table and figure of Jalali & Kasneci, *Entry Dependent Expert Selection in Distributed Gaussian
Processes Using Multilabel Classification*, run again with this library. `gpexperts reproduce --list`
names the experiments, `gpexperts reproduce NAME` runs one, `gpexperts reproduce all` runs them all;
finished runs are kept and not repeated. This page is written from the CSV files of the results. Those
shown here lie beside it, so that

    gpexperts reproduce --page docs/reproduction.md --out docs/reproduction

writes it again. Every number comes from them, and every verdict follows from the numbers by a rule in
`gpexperts.paper.claims`.

The settings are the paper's where it gives them: a squared exponential kernel with one length scale per
input and white noise, trained jointly on all parts; k-means parts; λ = 0.1 for the graph, which is
learned on the test inputs; Euclidean distance for KNN; one hidden layer of 50 units for DNN. Three
things it leaves open or has otherwise:

- All methods of a run share one set of hyperparameters, that of the joint training; GRBCM, which needs
  experts of its own, and the full GP get the same. So methods differ in selection and aggregation only.
- Rules combine the experts' latent predictions, and the noise is added once, at the end. NPAE's R has
  the observations' noise on its diagonal, without which it is not the best linear predictor.
- Seeds change the split (where it is not a fixed one), the k-means start and the network. The spread in
  the tables is mostly that of the split, which all methods share: a difference between methods can be
  sound though it is smaller.

Times are CPU seconds of all threads together, measured on two cores that other work shared; a dash stands
for what was not measured.
"""

NOTES: dict[str, str] = {
    "concrete-baselines": """
The paper's figure has no numbers in print; its table of independent rules (see concrete-ci) is for M =
10. "full GP" uses the experts' hyperparameters, "full GP, own θ" was trained on all rows.
""",
    "selection-scheme": """
Experts are numbered from left to right. GGM asks the same three everywhere, so that whole regions are
answered by experts that have no data there; KNN and DNN ask others for each query.
""",
    "concrete-ci": """
The paper's MSLL of RBCM is positive, worse than the trivial predictor; here it is close to NPAE's. A
rule that combines noisy instead of latent variances counts the noise's precision once per expert and
becomes overconfident. All three rules are better here than in the paper, which leaves selection less to
improve.
""",
    "synthetic-intervals": """
Between 0 and 1, where the data are, NPAE, KNN and DNN cannot be told from the full GP; outside they are
wider. GGM leaves out the experts of whole regions; there it knows next to nothing, and says so.
""",
    "cost": """
An exponent is the slope over the last three sizes of a sweep. The paper counts the solution of the K × K
systems, O(n_t K³); what takes the time is to form R(x*), K² m² per query, and at small K a part that is
linear in K. KNN's selection takes about a millisecond at every M. GLasso has not reached its cubic
regime by M = 128.
""",
    "pumadyn": """
The paper's numbers are met to within about 2 % for every dependent method, mostly from above: the parts that
k-means happens to find, and how θ is trained, make differences of that size. The independent rules are better
here: GRBCM, whose experts share a random communication set, is even ahead of NPAE, for which the paper has it
the other way round.
""",
    "real-world": """
In each panel the dots are ours and the diamonds the paper's; "KNN-7" asks 70 % of the experts.

- *GGM* is worse than in the paper on every set but parkinsons: no fixed set of half of these parts serves
  all queries (see fixed-sets).
- *airfoil*: otherwise as in the paper or better; RBCM's larger SMSE is within what the split changes
  (fixed-sets has the spread over seeds).
- *parkinsons*: errors next to nothing against the paper's 0.21. The inputs hold the subject's number and
  the time of the test, and the target was interpolated in time for each subject. Joint training finds
  that out: its kernel (in the CSV file) switches the 16 voice measures off, keeps subject, age, sex and
  time, and has next to no noise. The paper's numbers show a model that did not. All methods that reach a
  subject's own expert are at the floor; GGM does not reach all. NPAE's intervals are too wide here: its
  nugget, 1e-8 of the prior variance, is larger than the noise.
- *pol*: worse than in the paper for all rules but GPoE. pol-k tells why: a lone nearest expert beats the
  paper's best number here, and every further expert makes it worse. The target has eleven levels and the
  stationary kernel is wrong for it, so that far experts contradict the near ones with confidence
  (coverage is below 95 %). What the paper had otherwise is not known: random parts, parts cut in the
  inputs' raw units, and length scales half as long again or 30 % shorter were tried, and none meets both
  of its scores.
- *protein*: with RMSD as the target the paper's SMSE is out of reach of this kernel; with log(1 + RMSD),
  which a widely used collection has, it is all but met (see protein-target). It looks as if that was the
  paper's target, and its numbers stand beside that variant.
- *sarcos*: the official test rows are all training rows, so that "sarcos-official" is recall. Most of
  the paper's numbers for it are better than ours, and recall is what the split rewards: a kernel with
  shorter length scales and less noise, which is less likely and predicts new rows worse, passes the
  paper's SMSE and MSLL (see sarcos-recall). "sarcos" leaves the test rows out of training; neighbours in
  time remain, and it is still an easy test.
- *song*: only the first 1,176 rows were at hand; with the whole set the same command runs the paper's
  configuration. On the head M is 8, and the numbers say nothing about the paper's.
""",
    "consistency": """
Above with k-means parts, below with random ones (to n = 4,000). No rule goes wrong here: all means
approach the truth, PoE's and BCM's too. The inconsistency that the paper cites is that of rules which
combine noisy predictions: their variance then falls below the noise. With latent predictions PoE and BCM
are sound, and what remains is GPoE, whose std stays that of an average expert, and RBCM, which with
random parts is twice too sure. NPAE is closest of those that use a part's rows only, but does not reach
the full GP: with parts of fixed size it gets one number per expert, and its std grows relative to the
full GP's. GRBCM, whose communication set shows every expert the whole range, gets nearest. GGM stays
away: half of the experts leave half of the range.
""",
    "partition": """
On concrete, k-means parts are far better. On pumadyn32nm, where 28 of the 32 inputs do not matter,
k-means in all inputs cuts hardly better than chance, and the differences are in the fourth decimal.
""",
    "fixed-sets": """
Why GGM lags so far behind: with k-means parts no fixed set can serve all queries. Even the best of all
sets, chosen with the test targets in hand, is worse than KNN and NPAE, and on airfoil worse than what
the paper reports for GGM. That number cannot come from parts like these: the paper's experts must have
overlapped more, by longer length scales or by other parts. Importance in the graph is also a poor guide:
GGM's set is nearer to the median set than to the best one.
""",
    "protein-target": """
The paper's number for KNN stands beside log(1 + RMSD), which comes close to it; RMSD itself does not.
""",
    "sarcos-recall": """
Factor 1 is the kernel with the highest likelihood; the others follow their training rows more closely than
the data warrant. On the official split, whose test rows are training rows, the closer the better, far past
the paper's 0.0025. With the test rows left out the error grows.
""",
    "pol-k": """
The smallest K is the best, whichever rule combines: see real-world.
""",
}

REASONS: dict[str, str] = {
    "NPAE beats the independent rules, on concrete": (
        "BCM and RBCM, which combine latent variances here, cannot be told from NPAE; the paper's are far "
        "behind. GRBCM is better: its experts also see a communication set."
    ),
    "NPAE beats them on real data": (
        "Not where the model is wrong (pol), where there is less noise than NPAE's nugget (parkinsons), or "
        "where the test rows are training rows (sarcos-official); nor by much against GRBCM."
    ),
    "NPAE does not depend on M; the other rules do": (
        "PoE, GPoE and BCM lose as parts get smaller; RBCM and GRBCM, which weigh experts by what they "
        "know, do not."
    ),
    "KNN and DNN near NPAE faster than GGM": (
        "A fixed set leaves regions without an expert; see fixed-sets."
    ),
    "KNN's and DNN's intervals are NPAE's; GGM's are worse": ("As the paper says."),
    "Softmax beats sigmoid output": (
        "Both rank the experts of a query almost alike, and NPAE forgives the rest. Neither depends on the "
        "batch size by more than 1 %."
    ),
    "Selection helps the independent rules at no cost": (
        "GPoE gains: its equal weights no longer count those that know nothing. RBCM and GRBCM give them "
        "next to no weight anyway."
    ),
    "KNN and DNN beat full NPAE on some sets": (
        "By little, except where the model is wrong and far experts mislead (pol; see pol-k)."
    ),
    "Selection makes the dependent aggregation affordable": (
        "Half of the experts are a quarter of the pairs; and far fewer are enough."
    ),
    "GGM, KNN and DNN take about the same time": (
        "Prediction does. Before it the network has to be trained and the graph learned; KNN needs neither."
    ),
    "Disjoint parts beat random ones": (
        "By much on concrete; on pumadyn32nm, where few of many inputs matter, k-means hardly differs "
        "from chance."
    ),
    "GGM at 70 % comes near NPAE": (
        "On pumadyn32nm, whose experts all cover the inputs that matter. On parkinsons the left-out "
        "experts leave groups of rows without any near one."
    ),
    "NPAE and selection are consistent; PoE and BCM are not": (
        "PoE and BCM are sound when they combine latent predictions; see the experiment."
    ),
    "Aggregation is O(n_t K³); selection O(M³) by GGM, O(M) by KNN and DNN": (
        "Forming R(x*) takes K² m² per query, far more than K³ for a sensible K; the experts' size m is "
        "absent from the paper."
    ),
}
