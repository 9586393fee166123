"""Application code that options name (serializers, partitioners, interceptors): how it is found and configured."""
