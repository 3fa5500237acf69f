"""``python -m benchmarks.quality``."""

from benchmarks.quality.run import main

if __name__ == "__main__":
    main()
