"""Found by Spark because of its name, so that `format("ottla")` needs no `register` call."""

from ottla.spark.runtime.requirement import require_spark

require_spark()

from ottla.spark.datasource import OttlaDataSource as DefaultSource  # noqa: E402

__all__ = ["DefaultSource"]
