"""`python -m bench [NAME …]`: measure, print, and write `docs/benchmarks.md`."""

import sys

from bench import engine, figures, published, server

MEASUREMENTS = {"server": server.measure, "engine": engine.measure, "published": published.measure}


def main(names: list[str]) -> int:
    """Run the named measurements, all of them by default; only a whole run is written down."""
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}; there are {', '.join(MEASUREMENTS)}.")
        return 2
    where = figures.machine()
    print(where)
    sections = [MEASUREMENTS[name]() for name in names or MEASUREMENTS]
    for section in sections:
        for figure in section.figures:
            print(f"{figure.work} | {figure.against} | {figure.result} | {figure.target}")
    if not names:
        figures.write(sections, where)
        print(f"written to {figures.DOCUMENT}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
