"""The answers of the API, one module per subject.

Services return these classes, the schema describes them, and the client returns them. May import
only pydantic and the torch-free part of `adaptlab`. Functions that build answers from rows are in
`adaptlab_services`; methods that the client adds to answers are in `adaptlab_client`.
"""
