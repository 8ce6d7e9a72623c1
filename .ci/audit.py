"""Look for known vulnerabilities in what is installed, and say plainly when nobody could be asked.

pip-audit asks a service on the internet. Some machines cannot reach it, or reach a registry that
has no vulnerability data and answers "not found" for everything. Neither is a finding and neither
is a clean bill, so both are reported as what they are and do not fail the run. A finding does, and
so does any other failure of pip-audit.
"""

import json
import subprocess
import sys

UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "Max retries exceeded")


def main() -> int:
    """Run pip-audit over this environment; 0 is clean or unknown (said on stderr), 1 a finding."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--skip-editable"]
    run = subprocess.run(
        [*command, "--progress-spinner", "off"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        return _explain_failure(run.stderr)
    audited = [package for package in packages if "vulns" in package]
    found = [package for package in audited if package["vulns"]]
    for package in found:
        names = ", ".join(vulnerability["id"] for vulnerability in package["vulns"])
        print(f"audit: {package['name']} {package['version']}: {names}", file=sys.stderr)
    if not audited:
        print(
            f"audit: NOT DONE: the vulnerability service knew none of {len(packages)} packages",
            file=sys.stderr,
        )
    else:
        print(f"audit: {len(audited)} of {len(packages)} packages, {len(found)} with findings")
    return 1 if found else 0


def _explain_failure(stderr: str) -> int:
    """Tell a service that cannot be reached from a pip-audit that broke."""
    if any(sign in stderr for sign in UNREACHABLE):
        print("audit: NOT DONE: the vulnerability service could not be reached", file=sys.stderr)
        return 0
    print(stderr, file=sys.stderr)
    print("audit: pip-audit failed, see above", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
