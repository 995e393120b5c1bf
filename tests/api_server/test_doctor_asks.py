"""``trireme doctor`` on a real cluster."""

from trireme.doctor import cluster as of_cluster


def test_a_real_cluster_is_told_without_a_change_to_it(real):
    assert of_cluster.version(real).startswith("v1.")
    facts = list(of_cluster.facts(real))
    assert any("takes pods" in fact.sentence or "take pods" in fact.sentence for fact in facts)
    assert any(fact.sentence.startswith("you may create pytorchjobs") for fact in facts)
    assert any(fact.verdict == "missing" and "trireme-mlflow" in fact.sentence for fact in facts)
