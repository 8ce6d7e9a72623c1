"""How routes that answer with files describe themselves."""

from adaptlab_api.requests.describing import succeeds

BYTES = "application/octet-stream"
HEADERS = {
    "ETag": "The SHA-256 of the whole file, in double quotes.",
    "Accept_Ranges": "Always `bytes`.",
    "Content_Length": "The number of bytes that follow.",
    "Content_Disposition": "A name for the file.",
}
FILE = (
    succeeds(200, "The file.", BYTES, **HEADERS)
    | succeeds(206, "A range of the file.", BYTES, **HEADERS, Content_Range="Range and file size.")
    | succeeds(304, "The content matches `If-None-Match`.")
)
