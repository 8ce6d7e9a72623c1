"""What stands in the place of every secret of the stack."""

SERVERS = {
    name: f"canary{name.replace('_', '')}4711"
    for name in ("postgres", "api", "worker", "valkey", "valkey_api", "valkey_worker")
}
S3_KEY, S3_SECRET, OTHER = (f"canary{place}4711" for place in ("s3key", "s3secret", "other"))
ENVIRONMENT = {
    "ADAPTLAB_S3_ACCESS_KEY_ID": S3_KEY,
    "ADAPTLAB_S3_SECRET_ACCESS_KEY": S3_SECRET,
    "AWS_SECRET_ACCESS_KEY": OTHER,
    "HF_TOKEN": OTHER,
    "PGPASSWORD": OTHER,
}
