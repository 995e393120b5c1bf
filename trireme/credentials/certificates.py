"""Certificates of servers that are not accepted, in what programs and libraries say of them."""

import re

from trireme.errors import InputError

PAGE = "docs/how-to/certificates.md"

# As rustls (uv), GnuTLS and OpenSSL (git), and Python say it.
_SIGNS = re.compile(
    r"invalid peer certificate[^\n]*|server certificate verification failed|"
    r"SSL certificate problem[^\n]*|certificate verify failed[^\n(]*",
    re.IGNORECASE,
)


def refused(output: str, whose: str, variable: str) -> InputError | None:
    """Returns the error that a failure means which is a certificate's; None for any other.

    Args:
        whose: The server, for a person.
        variable: What names the file of the CA that is to be trusted.
    """
    if not (match := _SIGNS.search(output)):
        return None
    return InputError(
        f"{whose} has a certificate that is not accepted: {match[0].strip()}; name the file of the "
        f"CA that has signed it in {variable}, see {PAGE}"
    )
