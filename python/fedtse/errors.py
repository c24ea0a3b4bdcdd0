"""What can go wrong. Each says the file or field, what was found and what was expected."""


class FedtseError(Exception):
    """Any error of fedtse."""


class FedtseValueError(FedtseError, ValueError):
    """Something that was given does not fit."""


class FedtseOSError(FedtseError, OSError):
    """A file or folder cannot be read or written."""


class FedtseInternalError(FedtseError, RuntimeError):
    """A mistake in fedtse itself."""
