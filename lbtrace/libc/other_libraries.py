"""What usual functions of libraries without debug information take and return.

Source: OpenSSL's manual, section 3; zlib.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from lbtrace.model import Formal, Function, Prototype, Scalar, Type
from lbtrace.values.character import Character
from lbtrace.values.integer import Integer
from lbtrace.values.pointer import Pointer

LIBRARIES: Mapping[str, str] = {
    r"libssl\.so\b": """
        int SSL_read(SSL *ssl, void *buf, int num);
        int SSL_peek(SSL *ssl, void *buf, int num);
        int SSL_write(SSL *ssl, const void *buf, int num);
        int SSL_read_ex(SSL *ssl, void *buf, size_t num, size_t *readbytes);
        int SSL_peek_ex(SSL *ssl, void *buf, size_t num, size_t *readbytes);
        int SSL_write_ex(SSL *s, const void *buf, size_t num, size_t *written);
        int SSL_do_handshake(SSL *ssl);
        int SSL_connect(SSL *ssl);
        int SSL_accept(SSL *ssl);
        int SSL_shutdown(SSL *ssl);
        int SSL_get_error(SSL *ssl, int ret);
    """,
    r"libcrypto\.so\b": """
        int BIO_read(BIO *b, void *data, int dlen);
        int BIO_write(BIO *b, const void *data, int dlen);
    """,
    r"libz\.so\b": """
        gzFile gzopen(const char *path, const char *mode);
        gzFile gzopen64(const char *path, const char *mode);
        gzFile gzdopen(int fd, const char *mode);
        int gzread(gzFile file, void *buf, unsigned len);
        size_t gzfread(void *buf, size_t size, size_t nitems, gzFile file);
        char *gzgets(gzFile file, char *buf, int len);
        int gzwrite(gzFile file, const void *buf, unsigned len);
        int gzputs(gzFile file, const char *s);
        int gzeof(gzFile file);
        int gzclose(gzFile file);
        int inflate(z_stream *strm, int flush);
        int deflate(z_stream *strm, int flush);
    """,
}
"""Declarations, by what the library calls itself."""

DECLARATION = re.compile(r"(.+?)(\w+)\((.*)\);")
PARAMETER = re.compile(r"(.+?)(\w+)")


def prototypes(library: str, functions: Iterable[Function]) -> dict[int, Prototype]:
    """Return the prototypes of those of ``functions`` that are declared of the library which calls
    itself so, by their addresses."""
    text = next((text for name, text in LIBRARIES.items() if re.match(name, library)), "")
    declared = {
        name: Prototype(
            tuple(
                _formal(match[2], match[1]) for match in map(PARAMETER.fullmatch, formals) if match
            ),
            _formal("", result),
            exact=True,
            complete=True,
        )
        for result, name, listed in DECLARATION.findall(text)
        for formals in [listed.split(", ")]
    }
    found = {}
    for function in functions:
        names = [name.partition("@")[0] for name in (function.name, *function.aliases)]
        prototype = next(filter(None, map(declared.get, names)), None)
        if prototype is not None:
            found[function.address] = prototype
    return found


def _formal(name: str, type_name: str) -> Formal:
    type = _type(type_name.strip())
    return Formal(name, type, type.size, (Scalar(0, type.size, "integer"),))


def _type(name: str) -> Type:
    if name == "gzFile" or name.endswith("*"):
        is_text = name.removeprefix("const ") == "char *"
        return Pointer(name, 8, Character("char", 1, True) if is_text else None)
    return Integer(name, 8 if name == "size_t" else 4, name == "int")
