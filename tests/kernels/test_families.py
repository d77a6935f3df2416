"""The families of kernels."""

import pytest

from streamgp import kernels
from streamgp.errors import KernelError


@pytest.mark.parametrize(
    "arguments", [{"n": 0}, {"low": 0.0}, {"low": 5.0, "high": 1.0}, {"length_scale": -1.0}]
)
def test_a_dictionary_of_nonsense_is_refused(arguments):
    with pytest.raises(KernelError):
        kernels.dictionary(**arguments)
