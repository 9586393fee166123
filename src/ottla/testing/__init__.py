"""For tests of programs that use Kafka: a pytest plugin with a real broker."""
