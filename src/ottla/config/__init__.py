"""Options of topics, brokers and clients: one frozen dataclass each, declared with `options.option`.

Parsing, defaults, checks, DescribeConfigs answers (`describe`), documents (`document`) and the types of keywords
(`typed_options`) follow from the declarations. Options of Kafka that Ottla does not have are listed with a hint in
`unsupported_broker_options` and `unsupported_client_options`.
"""
