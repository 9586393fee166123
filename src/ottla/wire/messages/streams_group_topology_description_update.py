"""StreamsGroupTopologyDescriptionUpdate: a description of a Kafka Streams topology for its group (KIP-1331)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Int8, Int16, Int32, String


@struct
class TopologyDescriptionNode:
    name: String
    node_type: Int8
    source_topics: list[String]
    sink_topic: String | None = wire(default=None)
    stores: list[String]
    successors: list[String]


@struct
class TopologyDescriptionSubtopology:
    subtopology_id: String
    nodes: list[TopologyDescriptionNode]


@struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


@struct
class TopologyDescription:
    subtopologies: list[TopologyDescriptionSubtopology]
    global_stores: list[TopologyDescriptionGlobalStore]


@message(api=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: String
    member_id: String
    topology_epoch: Int32
    topology_description: TopologyDescription


@message(api=93, versions="0", flexible="0+")
class StreamsGroupTopologyDescriptionUpdateResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None = wire(default=None)
