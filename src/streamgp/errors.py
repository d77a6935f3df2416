"""Every exception and warning of streamgp.

::

    StreamGPError
    ├── ParameterError (ValueError)      an argument of the constructor is out of range
    ├── InputError (ValueError)          a batch cannot be learned or predicted; the model is unchanged
    │   └── InputTypeError (TypeError)   the same, because of its type
    ├── KernelError (ValueError)         a kernel is invalid, or does not suit the method or the data
    ├── DataError (OSError)              a data set is missing, damaged or not the published one
    ├── CheckpointError (OSError)        a checkpoint cannot be written or read
    ├── ExportError (ValueError)         a model cannot be exported as it is
    └── NumericalError (ArithmeticError) a factorisation failed; the model is unchanged

    StreamGPWarning (UserWarning)
    ├── ExportWarning                    an exported model leaves out a part of this one
    └── NegativeVarianceWarning          predicted variances below zero were set to zero
"""


class StreamGPError(Exception):
    """Base class of all exceptions of streamgp."""


class ParameterError(StreamGPError, ValueError):
    """An argument of the constructor is out of range."""


class InputError(StreamGPError, ValueError):
    """A batch cannot be learned or predicted; the model is unchanged."""


class InputTypeError(InputError, TypeError):
    """A batch is of a type that cannot be learned or predicted; the model is unchanged."""


class KernelError(StreamGPError, ValueError):
    """A kernel is invalid, or does not suit the method or the data."""


class DataError(StreamGPError, OSError):
    """A data set is missing, damaged or not the published one."""


class CheckpointError(StreamGPError, OSError):
    """A checkpoint cannot be written or read."""


class ExportError(StreamGPError, ValueError):
    """A model cannot be exported as it is; the message says why and what to do."""


class NumericalError(StreamGPError, ArithmeticError):
    """A factorisation failed; the model is unchanged."""


class StreamGPWarning(UserWarning):
    """Base class of all warnings of streamgp."""


class ExportWarning(StreamGPWarning):
    """An exported model leaves out a part of this one; the message says which."""


class NegativeVarianceWarning(StreamGPWarning):
    """Predicted variances below zero were set to zero; the message says how many and how low."""
