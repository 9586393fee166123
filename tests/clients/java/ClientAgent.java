import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Does with Kafka's client what it is told; one connection is one producer, consumer or admin client. */
public class ClientAgent {
    private static final Duration CLOSE = Duration.ofSeconds(2);
    private static final long ADMIN_SECONDS = 20;

    public static void main(String[] arguments) throws IOException {
        ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        System.out.println(server.getLocalPort());
        Thread parent = new Thread(ClientAgent::exitWithParent);
        parent.setDaemon(true);
        parent.start();
        while (true) {
            Socket socket = server.accept();
            socket.setTcpNoDelay(true);
            new Thread(() -> serve(socket)).start();
        }
    }

    private static void exitWithParent() {
        try {
            while (System.in.read() >= 0) { }
        } catch (IOException error) {
            // Gone as well.
        }
        Runtime.getRuntime().halt(0);
    }

    private static void serve(Socket socket) {
        Session session = null;
        try (socket;
                DataInputStream in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
                DataOutputStream out =
                        new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()))) {
            while (true) {
                Words words = new Words(read(in));
                List<byte[]> answer = new ArrayList<>();
                answer.add(bytes("ok"));
                try {
                    String command = words.text();
                    if (session == null) {
                        session = open(command, words);
                    } else {
                        session.run(command, words, answer);
                    }
                } catch (Exception error) {
                    Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                    answer = List.of(bytes("error"), bytes(errorOf(cause).code()), bytes(textOf(cause)));
                }
                write(out, answer);
            }
        } catch (EOFException end) {
            // The test is done with it.
        } catch (IOException error) {
            error.printStackTrace();
        } finally {
            if (session != null) {
                session.close();
            }
        }
    }

    /** What the client says, with its causes: "Failed to create" alone says too little. */
    private static String textOf(Throwable cause) {
        return cause.getCause() == null ? cause.toString() : cause + ": " + textOf(cause.getCause());
    }

    private static Errors errorOf(Throwable cause) {
        // The one exception without a number is the consumer's own.
        if (cause instanceof OffsetOutOfRangeException) {
            return Errors.OFFSET_OUT_OF_RANGE;
        }
        Errors found = Errors.forException(cause);
        // A producer in an error state wraps what brought it there.
        return found == Errors.UNKNOWN_SERVER_ERROR && cause.getCause() != null ? errorOf(cause.getCause()) : found;
    }

    private static Session open(String kind, Words settings) {
        switch (kind) {
            case "producer":
                return new ProducerSession(settings.settings());
            case "consumer":
                return new ConsumerSession(settings.settings());
            case "admin":
                return new AdminSession(settings.settings());
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private interface Session {
        void run(String command, Words words, List<byte[]> answer) throws Exception;

        void close();
    }

    private static class ProducerSession implements Session {
        private final KafkaProducer<byte[], byte[]> producer;

        ProducerSession(Map<String, Object> settings) {
            producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public void run(String command, Words words, List<byte[]> answer) throws Exception {
            switch (command) {
                case "init":
                    producer.initTransactions();
                    break;
                case "begin":
                    producer.beginTransaction();
                    break;
                case "send":
                    send(words, answer);
                    break;
                case "place": {
                    String topic = words.text();
                    List<Future<RecordMetadata>> sent = new ArrayList<>();
                    while (words.hasNext()) {
                        sent.add(producer.send(new ProducerRecord<>(topic, words.next(), new byte[0])));
                    }
                    for (Future<RecordMetadata> one : sent) {
                        answer.add(bytes(one.get().partition()));
                    }
                    break;
                }
                case "send-offsets": {
                    ConsumerGroupMetadata group = new ConsumerGroupMetadata(
                            words.text(), words.number(), words.text(), Optional.empty());
                    Map<TopicPartition, OffsetAndMetadata> offsets = new LinkedHashMap<>();
                    while (words.hasNext()) {
                        offsets.put(words.partition(), new OffsetAndMetadata(Long.parseLong(words.text())));
                    }
                    producer.sendOffsetsToTransaction(offsets, group);
                    break;
                }
                case "commit":
                    producer.commitTransaction();
                    break;
                case "abort":
                    producer.abortTransaction();
                    break;
                default:
                    throw new IllegalArgumentException(command);
            }
        }

        private void send(Words words, List<byte[]> answer) throws Exception {
            String topic = words.text();
            int partition = words.number();
            int waitMs = words.number();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int left = words.number(); left > 0; left--) {
                byte[] key = words.next();
                byte[] value = words.next();
                byte[] timestamp = words.next();
                List<Header> headers = new ArrayList<>();
                for (int headersLeft = words.number(); headersLeft > 0; headersLeft--) {
                    headers.add(new RecordHeader(words.text(), words.next()));
                }
                Long timestampMs = timestamp == null ? null : Long.valueOf(text(timestamp));
                sent.add(producer.send(new ProducerRecord<>(topic, partition, timestampMs, key, value, headers)));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                answer.add(bytes(one.get(waitMs, TimeUnit.MILLISECONDS).offset()));
            }
        }

        @Override
        public void close() {
            producer.close(CLOSE);
        }
    }

    private static class ConsumerSession implements Session {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private Iterator<ConsumerRecord<byte[], byte[]>> polled = List.<ConsumerRecord<byte[], byte[]>>of().iterator();

        ConsumerSession(Map<String, Object> settings) {
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        @Override
        public void run(String command, Words words, List<byte[]> answer) {
            switch (command) {
                case "assign":
                    assign(words);
                    break;
                case "subscribe":
                    consumer.subscribe(List.of(words.text()));
                    break;
                case "seek":
                    giveBack();
                    consumer.seek(words.partition(), Long.parseLong(words.text()));
                    break;
                case "committed": {
                    TopicPartition partition = words.partition();
                    OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
                    answer.add(found == null ? null : bytes(found.offset()));
                    break;
                }
                case "assignment":
                    for (TopicPartition partition : consumer.assignment()) {
                        answer.add(bytes(partition.partition()));
                    }
                    break;
                case "commit":
                    consumer.commitSync();
                    break;
                case "commit-offset": {
                    TopicPartition partition = words.partition();
                    OffsetAndMetadata offset = new OffsetAndMetadata(
                            Long.parseLong(words.text()), Optional.of(words.number()), words.text());
                    consumer.commitSync(Map.of(partition, offset));
                    break;
                }
                case "group": {
                    ConsumerGroupMetadata group = consumer.groupMetadata();
                    answer.add(bytes(group.groupId()));
                    answer.add(bytes(group.generationId()));
                    answer.add(bytes(group.memberId()));
                    break;
                }
                case "read":
                    read(words.number(), words.number(), answer);
                    break;
                case "offset-at": {
                    TopicPartition partition = words.partition();
                    OffsetAndTimestamp found =
                            consumer.offsetsForTimes(Map.of(partition, Long.valueOf(words.text()))).get(partition);
                    answer.add(found == null ? null : bytes(found.offset()));
                    break;
                }
                case "bounds": {
                    TopicPartition partition = words.partition();
                    List<TopicPartition> asked = List.of(partition);
                    answer.add(bytes(consumer.beginningOffsets(asked).get(partition)));
                    answer.add(bytes(consumer.endOffsets(asked).get(partition)));
                    break;
                }
                default:
                    throw new IllegalArgumentException(command);
            }
        }

        /** What was polled and not read comes again. */
        private void giveBack() {
            Map<TopicPartition, Long> unread = new LinkedHashMap<>();
            polled.forEachRemaining(record ->
                    unread.putIfAbsent(new TopicPartition(record.topic(), record.partition()), record.offset()));
            unread.forEach((partition, offset) -> consumer.seek(partition, offset));
        }

        private void assign(Words words) {
            Map<TopicPartition, Long> offsets = new LinkedHashMap<>();
            while (words.hasNext()) {
                offsets.put(words.partition(), Long.valueOf(words.text()));
            }
            consumer.assign(offsets.keySet());
            offsets.forEach((partition, offset) -> consumer.seek(partition, offset));
        }

        private void read(int count, int waitMs, List<byte[]> answer) {
            long deadline = System.nanoTime() + waitMs * 1_000_000L;
            for (int left = count; left > 0; left--) {
                while (!polled.hasNext()) {
                    long leftMs = (deadline - System.nanoTime()) / 1_000_000;
                    if (leftMs <= 0) {
                        return;
                    }
                    polled = consumer.poll(Duration.ofMillis(leftMs)).iterator();
                }
                ConsumerRecord<byte[], byte[]> record = polled.next();
                answer.add(bytes(record.partition()));
                answer.add(bytes(record.offset()));
                answer.add(bytes(record.timestamp()));
                answer.add(record.key());
                answer.add(record.value());
                Header[] headers = record.headers().toArray();
                answer.add(bytes(headers.length));
                for (Header header : headers) {
                    answer.add(bytes(header.key()));
                    answer.add(header.value());
                }
            }
        }

        @Override
        public void close() {
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(CLOSE));
        }
    }

    private static class AdminSession implements Session {
        private final Admin admin;

        AdminSession(Map<String, Object> settings) {
            admin = Admin.create(settings);
        }

        private static <T> T get(Future<T> future) throws Exception {
            return future.get(ADMIN_SECONDS, TimeUnit.SECONDS);
        }

        @Override
        public void run(String command, Words words, List<byte[]> answer) throws Exception {
            switch (command) {
                case "create-topic": {
                    NewTopic topic = new NewTopic(words.text(), words.number(), (short) words.number());
                    get(admin.createTopics(List.of(topic.configs(words.texts()))).all());
                    break;
                }
                case "delete-topic":
                    get(admin.deleteTopics(List.of(words.text())).all());
                    break;
                case "topics":
                    for (String name : get(admin.listTopics().names())) {
                        answer.add(bytes(name));
                    }
                    break;
                case "partition-count": {
                    String name = words.text();
                    answer.add(bytes(get(admin.describeTopics(List.of(name)).allTopicNames())
                            .get(name).partitions().size()));
                    break;
                }
                case "create-partitions":
                    get(admin.createPartitions(Map.of(words.text(), NewPartitions.increaseTo(words.number()))).all());
                    break;
                case "configs": {
                    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, words.text());
                    for (ConfigEntry entry : get(admin.describeConfigs(List.of(resource)).all())
                            .get(resource).entries()) {
                        answer.add(bytes(entry.name()));
                        answer.add(entry.value() == null ? null : bytes(entry.value()));
                    }
                    break;
                }
                case "set-config": {
                    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, words.text());
                    ConfigEntry entry = new ConfigEntry(words.text(), words.text());
                    get(admin.incrementalAlterConfigs(Map.of(
                            resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all());
                    break;
                }
                case "upgrade": {
                    String feature = words.text();
                    get(admin.updateFeatures(
                            Map.of(feature, new FeatureUpdate((short) words.number(), FeatureUpdate.UpgradeType.UPGRADE)),
                            new UpdateFeaturesOptions()).all());
                    break;
                }
                case "delete-records": {
                    TopicPartition partition = words.partition();
                    RecordsToDelete before = RecordsToDelete.beforeOffset(Long.parseLong(words.text()));
                    answer.add(bytes(get(admin.deleteRecords(Map.of(partition, before))
                            .lowWatermarks().get(partition)).lowWatermark()));
                    break;
                }
                case "list-offsets": {
                    TopicPartition partition = words.partition();
                    for (OffsetSpec spec : List.of(
                            OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp())) {
                        answer.add(bytes(get(admin.listOffsets(Map.of(partition, spec)).all())
                                .get(partition).offset()));
                    }
                    break;
                }
                case "nodes":
                    for (Node node : get(admin.describeCluster().nodes())) {
                        answer.add(bytes(node.host() + ":" + node.port()));
                    }
                    break;
                case "log-dir-size": {
                    TopicPartition partition = words.partition();
                    for (Map<String, LogDirDescription> dirs :
                            get(admin.describeLogDirs(List.of(words.number())).allDescriptions()).values()) {
                        for (LogDirDescription dir : dirs.values()) {
                            answer.add(bytes(dir.replicaInfos().get(partition).size()));
                        }
                    }
                    break;
                }
                case "reassignments":
                    for (TopicPartition partition : get(admin.listPartitionReassignments().reassignments()).keySet()) {
                        answer.add(bytes(partition));
                    }
                    break;
                case "list-transactions":
                    for (TransactionListing one : get(admin.listTransactions(
                            new ListTransactionsOptions().filterOnTransactionalIdPattern(words.text())).all())) {
                        answer.add(bytes(one.transactionalId()));
                        answer.add(bytes(one.producerId()));
                        answer.add(bytes(one.state()));
                    }
                    break;
                case "describe-transaction": {
                    TransactionDescription found =
                            get(admin.describeTransactions(List.of(words.text())).all()).values().iterator().next();
                    answer.add(bytes(found.coordinatorId()));
                    answer.add(bytes(found.state()));
                    answer.add(bytes(found.producerId()));
                    answer.add(bytes(found.producerEpoch()));
                    answer.add(bytes(found.transactionTimeoutMs()));
                    answer.add(bytes(found.transactionStartTimeMs().orElse(-1)));
                    for (TopicPartition partition : found.topicPartitions()) {
                        answer.add(bytes(partition));
                    }
                    break;
                }
                case "describe-producers": {
                    TopicPartition partition = words.partition();
                    for (ProducerState one : get(admin.describeProducers(List.of(partition)).all())
                            .get(partition).activeProducers()) {
                        answer.add(bytes(one.producerId()));
                        answer.add(bytes(one.producerEpoch()));
                        answer.add(bytes(one.lastSequence()));
                        answer.add(bytes(one.lastTimestamp()));
                        answer.add(bytes(one.coordinatorEpoch().orElse(-1)));
                        answer.add(bytes(one.currentTransactionStartOffset().orElse(-1)));
                    }
                    break;
                }
                case "abort-transaction":
                    get(admin.abortTransaction(new AbortTransactionSpec(
                            words.partition(), Long.parseLong(words.text()), (short) words.number(), words.number()))
                            .all());
                    break;
                case "fence":
                    get(admin.fenceProducers(List.of(words.text())).all());
                    break;
                case "elect":
                    get(admin.electLeaders(ElectionType.PREFERRED, Set.of(words.partition())).all());
                    break;
                default:
                    throw new IllegalArgumentException(command);
            }
        }

        @Override
        public void close() {
            admin.close(CLOSE);
        }
    }

    /** The words of a command, one after the other. */
    private static class Words {
        private final Iterator<byte[]> left;

        Words(byte[][] words) {
            left = Arrays.asList(words).iterator();
        }

        boolean hasNext() {
            return left.hasNext();
        }

        byte[] next() {
            return left.next();
        }

        String text() {
            return ClientAgent.text(left.next());
        }

        int number() {
            return Integer.parseInt(text());
        }

        TopicPartition partition() {
            return new TopicPartition(text(), number());
        }

        /** The words that are left, which are name=value. */
        Map<String, String> texts() {
            Map<String, String> found = new LinkedHashMap<>();
            while (hasNext()) {
                String[] pair = text().split("=", 2);
                found.put(pair[0], pair[1]);
            }
            return found;
        }

        /** The options of a client; -DNAME=VALUE is a property of the process. */
        Map<String, Object> settings() {
            Map<String, Object> found = new LinkedHashMap<>();
            texts().forEach((name, value) -> {
                if (name.startsWith("-D")) {
                    System.setProperty(name.substring(2), value);
                } else {
                    found.put(name, value);
                }
            });
            return found;
        }
    }

    private static byte[] bytes(Object value) {
        return value.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] value) {
        return new String(value, StandardCharsets.UTF_8);
    }

    private static byte[][] read(DataInputStream in) throws IOException {
        byte[][] words = new byte[in.readInt()][];
        for (int index = 0; index < words.length; index++) {
            int size = in.readInt();
            words[index] = size < 0 ? null : in.readNBytes(size);
        }
        return words;
    }

    private static void write(DataOutputStream out, List<byte[]> words) throws IOException {
        out.writeInt(words.size());
        for (byte[] word : words) {
            out.writeInt(word == null ? -1 : word.length);
            if (word != null) {
                out.write(word);
            }
        }
        out.flush();
    }
}
