import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group with Apache Kafka's own client; it says what the workers in Python say. */
public class GroupWorker implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    private static final Set<String> OWN =
            Set.of("topics", "pattern", "broker.pattern", "assignor", "commit.delay.ms");

    private final FileOutputStream out = new FileOutputStream(FileDescriptor.out);
    private final Map<String, String> options = new HashMap<>();
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Set<TopicPartition> owned = new HashSet<>();
    private final Map<TopicPartition, OffsetAndMetadata> pending = new HashMap<>();
    private volatile boolean leaving = false;

    public static void main(String[] arguments) throws Exception {
        new GroupWorker(arguments).run();
    }

    private GroupWorker(String[] arguments) {
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            options.put(pair[0], pair[1]);
        }
        Map<String, Object> settings = new HashMap<>(options);
        settings.keySet().removeAll(OWN);
        if (options.get("group.protocol").equals("consumer")) {
            // The broker has these.
            settings.keySet().removeAll(Set.of("session.timeout.ms", "heartbeat.interval.ms"));
            settings.put("group.remote.assignor", options.get("assignor"));
        } else {
            settings.put("partition.assignment.strategy", ASSIGNORS.get(options.get("assignor")));
        }
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "100");
        settings.put("max.poll.records", "20");
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("allow.auto.create.topics", "false");
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread input = new Thread(this::watchInput);
        input.setDaemon(true);
        input.start();
    }

    private void watchInput() {
        try {
            while (System.in.read() >= 0) { }
        } catch (IOException error) {
            // Gone as well.
        }
        leaving = true;
    }

    private void run() throws Exception {
        if (options.containsKey("pattern")) {
            consumer.subscribe(Pattern.compile("^" + options.get("pattern")), this);
        } else if (options.containsKey("broker.pattern")) {
            consumer.subscribe(new SubscriptionPattern(options.get("broker.pattern")), this);
        } else {
            consumer.subscribe(List.of(options.get("topics").split(",")), this);
        }
        long delayMs = Long.parseLong(options.getOrDefault("commit.delay.ms", "0"));
        while (!leaving) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                String value = new String(record.value(), StandardCharsets.UTF_8);
                say("record", Set.of(partition),
                        ", \"offset\": " + record.offset() + ", \"value\": \"" + value + "\"");
                pending.put(partition, new OffsetAndMetadata(record.offset() + 1));
            }
            if (!pending.isEmpty()) {
                Thread.sleep(delayMs);
            }
            commit();
        }
        commit();
        revoked("revoked", new HashSet<>(owned));
        consumer.close();
        write("left", "", Set.of(), "");
    }

    private void commit() {
        if (pending.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(pending);
        String identity = identity();
        double began = now();
        String error = null;
        try {
            consumer.commitSync(offsets);
        } catch (RebalanceInProgressException failure) {
            // Its generation is the old one; it may commit again when the rebalance is over.
            error = "REBALANCE_IN_PROGRESS";
        } catch (KafkaException failure) {
            error = failure.getClass().getSimpleName();
        }
        String kind = error == null ? "committed" : "commit-failed";
        StringBuilder ends = new StringBuilder();
        List<TopicPartition> partitions = List.copyOf(offsets.keySet());
        for (TopicPartition partition : partitions) {
            ends.append(ends.length() == 0 ? "" : ", ").append(offsets.get(partition).offset());
        }
        String more = ", \"offsets\": [" + ends + "], \"began\": " + began
                + (error == null ? "" : ", \"error\": \"" + error + "\"");
        write(kind, identity, partitions, more);
        if (error == null) {
            offsets.forEach((partition, end) -> pending.remove(partition, end));
        } else if (error.equals("CommitFailedException") || error.equals("FencedInstanceIdException")) {
            pending.clear();
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        owned.addAll(partitions);
        say("assigned", partitions, "");
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        revoked("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        pending.keySet().removeAll(partitions);
        revoked("lost", partitions);
    }

    private void revoked(String kind, Collection<TopicPartition> partitions) {
        Set<TopicPartition> gone = new HashSet<>(partitions);
        gone.retainAll(owned);
        owned.removeAll(gone);
        if (!gone.isEmpty()) {
            say(kind, gone, "");
        }
    }

    private String identity() {
        ConsumerGroupMetadata metadata = consumer.groupMetadata();
        return ", \"generation\": " + metadata.generationId()
                + ", \"member_id\": \"" + metadata.memberId() + "\""
                + ", \"instance_id\": \"" + metadata.groupInstanceId().orElse("") + "\"";
    }

    /** System.nanoTime is the system's monotonic clock, as time.monotonic() of Python. */
    private static double now() {
        return System.nanoTime() / 1e9;
    }

    private void say(String kind, Collection<TopicPartition> partitions, String more) {
        write(kind, identity(), partitions, more);
    }

    private void write(String kind, String identity, Collection<TopicPartition> partitions, String more) {
        String places = partitions.stream()
                .map(one -> "[\"" + one.topic() + "\", " + one.partition() + "]")
                .collect(Collectors.joining(", "));
        String line = "{\"time\": " + now() + ", \"kind\": \"" + kind + "\", \"partitions\": ["
                + places + "]" + identity + more + "}\n";
        try {
            out.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            leaving = true;
        }
    }
}
