"""Everything streamgp raises or warns about, one tree.

::

    StreamGPError
    ├── ParameterError (ValueError)      an argument of the constructor is out of range
    ├── InputError (ValueError)          a batch cannot be learned or predicted; the model is unchanged
    │   └── InputTypeError (TypeError)   the same, because of its type
    ├── KernelError (ValueError)         a kernel is of the wrong kind or wrongly built
    ├── DataError (OSError)              a data set is not there, or is not what it should be
    ├── CheckpointError (OSError)        a checkpoint cannot be written, or is not one that can be read
    └── NumericalError (ArithmeticError) a factorisation failed; the model is unchanged

    StreamGPWarning (UserWarning)
    └── NegativeVarianceWarning          variances below zero were set to zero; says how many
"""


class StreamGPError(Exception):
    """Root of everything that streamgp raises itself."""


class ParameterError(StreamGPError, ValueError):
    """An argument of the constructor is out of range."""


class InputError(StreamGPError, ValueError):
    """A batch cannot be learned or predicted; the model is unchanged."""


class InputTypeError(InputError, TypeError):
    """A batch is of a type that cannot be learned or predicted; the model is unchanged."""


class KernelError(StreamGPError, ValueError):
    """A kernel is of the wrong kind or wrongly built."""


class DataError(StreamGPError, OSError):
    """A data set is not there, or is not what it should be."""


class CheckpointError(StreamGPError, OSError):
    """A checkpoint cannot be written, or is not one that can be read."""


class NumericalError(StreamGPError, ArithmeticError):
    """A factorisation failed; the model is unchanged."""


class StreamGPWarning(UserWarning):
    """Root of the warnings."""


class NegativeVarianceWarning(StreamGPWarning):
    """Predicted variances below zero were set to zero; the text says how many and how low."""
