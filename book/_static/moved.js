// Figures, exercises and sections that stand in another chapter since chapters were divided: their old
// address leads to the new one. Page -> page -> ids. Those that have another name or are in a fold:
// page -> where to -> old ids.
(() => {
  const MOVED = {
    "2-deep-linear-pca.html": {
      "2-arrival.html": [
        "claim-acl-num11", "claim-acl-rem2", "claim-acl-rem3", "ex-linear-1", "ex-linear-4",
        "ex-linear-5", "fig-adversary", "fig-gap", "fig-traps", "how-to-build-a-trap",
        "not-every-start-arrives-a-narrow-layer-can-be-a-trap",
        "pair-weights-that-answer-the-network-bring-the-rank-back",
        "the-closer-the-two-top-eigenvalues-the-longer-the-net-reads-a-mixture", "traps-two",
        "where-eigenvalues-and-widths-are-kind-every-start-arrives",
        "with-benign-eigenvalues-and-widths-every-start-arrives"
      ]
    },
    "3-relu-composition.html": {
      "3-feature-composition.html": [
        "claim-acl-eq14", "claim-acl-eq15", "claim-acl-eq17", "claim-acl-eq64", "claim-acl-eq68",
        "claim-acl-eq70", "claim-acl-eq71", "claim-acl-lem4", "claim-acl-num19",
        "claim-acl-num20", "claim-acl-rem5", "claim-acl-thm6", "every-other-equation",
        "ex-relu-3", "ex-relu-4", "ex-relu-6", "fig-energy", "fig-fields", "fig-phase",
        "fig-pixels", "in-between-the-number-of-fields-moves-the-threshold", "lem-acl-4",
        "on-a-trained-net-weak-augmentation-leaves-one-field-strong-joins-them",
        "protocol-of-the-experiment-on-photographs",
        "real-pixels-sharper-filters-under-stronger-colour-augmentation-in-a-small-stand-in",
        "several-fields-see-each-other-only-through-a-hidden-cause",
        "strong-augmentation-makes-it-pay-to-join-features", "thm-acl-6",
        "training-mostly-ends-where-the-energies-say"
      ]
    },
    "4-dual-networks.html": {
      "4-residue.html": [
        "a-loss-with-fixed-weights-has-no-residue",
        "a-loss-with-held-weights-has-no-residue",
        "a-strong-residue-can-turn-growth-into-decay",
        "attraction-that-weighs-more-brings-in-a-second-operator", "claim-ddn-cor1",
        "claim-ddn-eq4", "claim-ddn-eq59", "claim-ddn-eq6", "claim-ddn-eq67",
        "claim-ddn-eq7", "claim-ddn-eq71", "claim-ddn-eq72", "claim-ddn-eq74",
        "claim-ddn-eq77", "claim-ddn-eq78", "claim-ddn-eq79", "claim-ddn-eq80",
        "claim-ddn-eq86", "claim-ddn-rem15", "claim-ddn-rem16", "claim-ddn-rem18",
        "claim-ddn-rem21", "claim-ddn-rem3", "claim-ddn-rem5", "claim-ddn-thm4",
        "cor-ddn-1", "every-other-equation", "ex-dual-operator-1", "ex-dual-operator-2",
        "fig-inside", "fig-residue", "fig-residue-plane",
        "infonce-a-weighted-covariance-and-a-residue",
        "not-every-update-is-positive-semi-definite",
        "stronger-attraction-brings-in-a-second-operator", "thm-ddn-4"
      ]
    },
    "4-hltm.html": {
      "4-trained-trees.html": [
        "claim-ddn-fig13", "claim-ddn-fig14", "claim-ddn-rem11", "claim-ddn-rem12", "claim-ddn-rem17",
        "claim-ddn-tab4", "claim-ddn-tab6", "ex-hltm-bet", "fig-operators", "fig-tables",
        "luck-at-the-start-does-not-decide-which-node-wins",
        "the-operator-grows-with-what-activations-know-of-the-root",
        "trained-groups-find-the-hidden-states-the-paper-s-tables-are-reproduced"
      ]
    },
    "5-one-layer.html": {
      "5-many-optima.html": [
        "a-layer-collects-optima-but-there-are-few-to-collect",
        "augmentation-joins-optima-into-orbits-it-need-not-remove-them", "claim-nl-cor1",
        "claim-nl-cor2", "claim-nl-def1", "claim-nl-def2", "claim-nl-def4", "claim-nl-eq101",
        "claim-nl-eq103", "claim-nl-eq104", "claim-nl-eq105", "claim-nl-eq108", "claim-nl-eq216",
        "claim-nl-eq25", "claim-nl-eq32", "claim-nl-eq41", "claim-nl-fig1", "claim-nl-fig1c",
        "claim-nl-lem1", "claim-nl-lem10", "claim-nl-lem11", "claim-nl-lem2", "claim-nl-lem7",
        "claim-nl-lem8", "claim-nl-lem9", "claim-nl-rem1", "claim-nl-rem10", "claim-nl-rem11",
        "claim-nl-rem12", "claim-nl-rem13", "claim-nl-rem23", "claim-nl-rem25", "claim-nl-rem9",
        "claim-nl-thm3", "cor-nl-2", "every-other-equation", "ex-onelayer-5", "ex-onelayer-6",
        "ex-onelayer-7", "fig-certificate", "fig-kernel", "fig-many", "fig-nearly", "fig-symmetry",
        "gaussian-weights-make-more-optima-whether-deeper-ones-depends-on-scale", "lem-nl-2",
        "one-layer-kernel", "power-iteration-finds-an-lme-if-the-matrix-moves-slowly", "thm-nl-3",
        "weights-from-a-kernel-make-a-w-a-sum-of-variances"
      ]
    },
    "6-landscape.html": {
      "6-training.html": [
        "ex-landscape-noise", "ex-landscape-rank", "fig-basic", "fig-basic-measures", "fig-noise-level",
        "fig-noise-map", "fig-one-hot", "fig-one-hot-measures", "fig-square", "fig-square-measures"
      ]
    },
    "6-dynamics.html": {
      "6-training.html": ["fig-simplified", "fig-simplified-measures"],
      "6-warm-starts.html": [
        "a-warm-start-with-a-predictor-comes-nearest", "ex-dynamics-chance", "ex-dynamics-loss",
        "fig-decides-ncl", "fig-norms", "fig-norms-measures", "fig-predictor", "fig-predictor-measures"
      ]
    }
  };
  const RENAMED = {
    "3-relu-composition.html": {
      "#what-one-relu-changes-a-node-keeps-one-feature": ["what-one-relu-changes-feature-composition"]
    },
    "4-hltm.html": {
      "#latent-trees-and-how-rare-a-lucky-node-is": [
        "latent-trees-lucky-nodes-and-what-the-layers-learn"
      ],
      "#a-view-keeps-the-root-and-draws-everything-below-it-anew": ["a-world-with-a-hierarchy"],
      "#polarities-multiply-down-a-path": ["messages-up-the-tree"],
      "#the-size-has-one-index-too-many-in-print": [
        "fig-depth", "strength-falls-geometrically-with-depth",
        "the-printed-size-has-one-index-too-many"
      ],
      "#units-of-one-latent-share-its-noise": [
        "the-noise-within-a-view", "units-of-one-latent-are-not-independent-so-their-noise-adds-up"
      ],
      "#how-rare-a-lucky-node-is-the-printed-bound-has-a-wrong-exponent": ["how-rare-is-a-lucky-node"],
      "#too-few-lucky-nodes-yet-the-conclusions-hold": [
        "a-threshold-that-does-not-always-rise-and-a-sign", "fig-enough",
        "the-theorem-asks-for-too-few-lucky-nodes-and-its-conclusions-hold-all-the-same",
        "the-theorem-asks-for-too-few-lucky-nodes-and-its-conclusions-hold-with-a-sign-added",
        "theorem-5-enough-nodes", "with-several-units-a-latent-the-last-step-of-the-proof-fails"
      ],
      "4-trained-trees.html#trained-groups-find-the-hidden-states-the-paper-s-tables-are-reproduced": [
        "more-nodes-gain-more-on-average",
        "trained-groups-do-find-the-hidden-states-the-paper-s-tables-come-out",
        "training-does-the-hidden-layer-find-the-hidden-states"
      ],
      "4-trained-trees.html#luck-at-the-start-does-not-decide-which-node-wins": [
        "do-the-lucky-ones-win", "luck-at-the-start-does-not-decide-who-wins"
      ],
      "4-trained-trees.html#the-operator-grows-with-what-activations-know-of-the-root": [
        "the-operator-grows", "what-grows-for-good-is-what-activations-know-of-the-root"
      ]
    },
    "5-one-layer.html": {
      "#one-node-climbs-to-the-top-eigenvector-of-a-matrix-that-turns-with-it": [
        "one-nonlinear-neuron"
      ],
      "#fig-eight": ["every-optimum-of-figure-8", "fig-eight-explore"],
      "#even-rare-patterns-are-locally-maximal": [
        "locally-maximal-eigenvectors", "patterns-are-places-to-rest-rare-ones-too"
      ],
      "#the-threshold-of-0-382-measured": ["the-threshold-of-0-382-without-its-formula"],
      "#an-lme-is-stable-where-its-gap-exceeds-its-roughness": ["stable-and-how-rough"],
      "#where-the-matrix-jumps-the-printed-theorem-is-false": [
        "where-the-matrix-jumps-the-theorem-as-printed-is-false"
      ],
      "#roughness-is-bounded-by-how-dense-the-data-are-at-the-gate": ["fig-roughness"],
      "#the-roughness-of-a-relu-pulls-back": ["roughness-with-a-sign"],
      "5-many-optima.html#one-layer-kernel": ["weights-with-a-kernel"],
      "5-many-optima.html#power-iteration-finds-an-lme-if-the-matrix-moves-slowly": [
        "power-iteration-with-a-moving-matrix"
      ],
      "5-many-optima.html#fig-nearly": [
        "nearly-orthogonal-patterns", "nearly-orthogonal-patterns-are-found-too",
        "patterns-that-are-nearly-orthogonal-are-found-too"
      ],
      "5-many-optima.html#a-layer-collects-optima-but-there-are-few-to-collect": ["how-many-optima"],
      "5-many-optima.html#gaussian-weights-make-more-optima-whether-deeper-ones-depends-on-scale": [
        "gaussian-weights-make-more-optima-and-shallower-ones",
        "gaussian-weights-make-more-optima-how-deep-is-a-matter-of-scale"
      ],
      "5-many-optima.html#augmentation-joins-optima-into-orbits-it-need-not-remove-them": [
        "augmentation-and-symmetry"
      ]
    },
    "5-two-layer.html": {
      "#two-layers-move-together-filters-pull-at-filters": ["two-layers"],
      "#linear-filters-of-one-field-learn-one-feature": ["linear-filters-of-one-field-learn-one-thing"],
      "#modulation-makes-the-favoured-basin-larger": ["fig-quadratic", "global-modulation"],
      "#the-top-layer-sees-the-latent-behind-all-fields": [
        "what-the-top-layer-sees", "what-the-top-layer-sees-is-the-latent-behind-all-fields"
      ],
      "#batchnorm-removes-the-size-of-a-field": [
        "batchnorm", "batchnorm-takes-the-size-of-a-field-away"
      ],
      "#a-world-of-tokens-many-patterns-in-every-field": [
        "many-patterns-in-every-field-the-token-world"
      ],
      "#trained-nets-which-tokens-do-the-filters-find": ["training-which-tokens-do-the-filters-find"],
      "#how-well-tokens-are-matched-depends-on-the-protocol": [
        "figures-4-9-and-10-how-well-the-tokens-are-matched"
      ],
      "#tokens-of-unequal-length-batchnorm-and-which-gradient-passes-it": [
        "figure-11-and-table-1-tokens-of-unequal-length"
      ],
      "#weight-decay-decides-how-long-random-filters-last": [
        "fig-noise", "fig-norm", "what-decides-how-long-the-random-filters-last"
      ]
    }
  };

  function follow() {
    const id = location.hash.slice(1);
    const here = location.pathname.split("/").pop();
    if (!id || document.getElementById(id)) return;
    const where = (table) =>
      Object.keys(table[here] ?? {}).find((name) => table[here][name].includes(id));
    const page = where(MOVED);
    const place = page ? page + "#" + id : where(RENAMED);
    if (place) location.replace(place);
  }
  addEventListener("hashchange", follow);
  follow();
})();
