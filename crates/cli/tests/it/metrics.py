"""Reads metrics with Prometheus's own parser, and holds them to its naming conventions.

Prints a line a family: kind, name, number of series. Exits with a complaint otherwise.
"""

import math
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

# Words at the end of a name that are no base unit, with the one that is.
UNITS = {"milliseconds": "seconds", "ms": "seconds", "microseconds": "seconds", "us": "seconds", "kib": "bytes", "mib": "bytes",
         "blocks": "bytes", "chunks": "bytes", "percent": "ratio"}
# Things that are counted, not measured.
COUNTED = set()


def check(family):
    words = family.name.split("_")
    assert words[0] == "thermocline", f"{family.name}: names begin with the program's"
    assert words[-1] not in UNITS or family.name in COUNTED, f"{family.name}: the base unit is {UNITS.get(words[-1])}"
    assert family.documentation, f"{family.name} has no help"
    assert family.samples, f"{family.name} has no series"
    if family.type == "histogram":
        assert words[-1] == "seconds", f"{family.name}: histograms are of seconds"
        check_histogram(family)


def check_histogram(family):
    series = {}
    for sample in family.samples:
        labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
        of = series.setdefault(labels, {"buckets": []})
        if sample.name.endswith("_bucket"):
            of["buckets"].append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            of["count"] = sample.value
    for labels, of in series.items():
        bounds = [bound for bound, _ in of["buckets"]]
        assert bounds == sorted(set(bounds)), f"{family.name} {labels}: bounds do not grow"
        assert bounds[-1] == math.inf, f"{family.name} {labels}: the last bucket is {bounds[-1]}, not +Inf"
        assert of["buckets"][-1][1] == of["count"], f"{family.name} {labels}: +Inf does not count everything"


for family in text_string_to_metric_families(sys.stdin.read()):
    check(family)
    print(family.type, family.name, len(family.samples))
