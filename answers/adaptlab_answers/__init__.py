"""The answers of the API, one module per subject: what services return and the client gives.

May import only the torch-free part of `adaptlab` and pydantic. Functions that make answers from
rows live in `adaptlab_services`; what the client adds to an answer lives in `adaptlab_client`.
"""
