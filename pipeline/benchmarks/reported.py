"""Instances of SWE-bench Verified that others have reported as broken or flaky.

A list ages and counts disagree (486 to 500 of 500 golds pass, by who measured and when), so it
warns and never decides: each instance's own gold control does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LISTS: Mapping[str, tuple[str, ...]] = {
    "gold fails, SWE-bench#294, #354, sb-cli#15, sb-cli#20": (
        "astropy__astropy-7606",
        "astropy__astropy-8707",
        "astropy__astropy-8872",
        "pylint-dev__pylint-6528",
        "pylint-dev__pylint-7277",
    ),
    "gold fails, SWE-bench#294": (
        "astropy__astropy-7166",
        "astropy__astropy-7336",
        "astropy__astropy-7671",
        "pylint-dev__pylint-7080",
    ),
    "gold fails, SWE-bench#294, #354": (
        "matplotlib__matplotlib-20488",
        "sphinx-doc__sphinx-10323",
        "sphinx-doc__sphinx-10435",
    ),
    "gold fails, SWE-bench#294, sb-cli#20, NeMo-Skills": ("psf__requests-2317",),
    "gold fails in older releases of the dataset": ("django__django-10097",),
    "gold fails, SWE-bench#354": (
        "psf__requests-1766",
        "pydata__xarray-2905",
        "pydata__xarray-3305",
        "pydata__xarray-3993",
        "pydata__xarray-4094",
        "pydata__xarray-4695",
        "pydata__xarray-6721",
        "pydata__xarray-6744",
        "pydata__xarray-6938",
        "pydata__xarray-6992",
        "sphinx-doc__sphinx-8595",
        "sphinx-doc__sphinx-9711",
        "sympy__sympy-13852",
    ),
    "gold fails, NeMo-Skills": ("psf__requests-1921",),
    "comes and goes, sb-cli#15": ("psf__requests-1724", "sympy__sympy-13091"),
    "test names are cut off in the dataset, SWE-bench#290": (
        "matplotlib__matplotlib-13989",
        "pytest-dev__pytest-5262",
        "pytest-dev__pytest-10081",
    ),
}
"""By what was reported, and where."""


def reported(ids: Iterable[str]) -> dict[str, str]:
    """Those of the ids that are on a list, with what it says."""
    said = {id_: words for words, listed in LISTS.items() for id_ in listed}
    return {id_: said[id_] for id_ in ids if id_ in said}
