import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's Java client, with faults and the broker's clock in the hands of the test. */
final class OrdersTest {
    private static final String LOST_ANSWER =
            "{\"api\": \"Produce\", \"topic\": \"orders\", \"drop\": \"after\", \"times\": 1}";

    public static void main(String[] arguments) throws Exception {
        try (TestBroker broker = new TestBroker()) {
            aLostAnswerDuplicatesWithoutIdempotence(broker);
            aLostAnswerDuplicatesNothingWithIdempotence(broker);
            aTransactionThatTakesTooLongIsAborted(broker);
        }
    }

    static void aLostAnswerDuplicatesWithoutIdempotence(TestBroker broker) throws Exception {
        broker.post("/reset", "");
        broker.post("/faults", LOST_ANSWER);
        try (Producer<String, String> producer = producer(broker, Map.of("enable.idempotence", "false"))) {
            producer.send(new ProducerRecord<>("orders", "tea")).get();
        }
        check("duplicated without idempotence", 2, recordsIn(broker.get("/records/orders")));
    }

    static void aLostAnswerDuplicatesNothingWithIdempotence(TestBroker broker) throws Exception {
        broker.post("/reset", "");
        broker.post("/faults", LOST_ANSWER);
        try (Producer<String, String> producer = producer(broker, Map.of("enable.idempotence", "true"))) {
            producer.send(new ProducerRecord<>("orders", "tea")).get();
        }
        check("once with idempotence", 1, recordsIn(broker.get("/records/orders")));
    }

    static void aTransactionThatTakesTooLongIsAborted(TestBroker broker) throws Exception {
        broker.post("/reset", "");
        Map<String, String> options = Map.of("transactional.id", "till", "transaction.timeout.ms", "60000");
        Producer<String, String> producer = producer(broker, options);
        try {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "never paid")).get();
            broker.post("/clock/advance", "{\"duration\": \"2m\"}");
            try {
                producer.commitTransaction();
                throw new AssertionError("the transaction was committed");
            } catch (KafkaException expected) {
                System.out.println("ok: refused, " + expected.getClass().getSimpleName());
            }
        } finally {
            producer.close(Duration.ZERO);
        }
        check("nothing committed", 0, recordsIn(broker.get("/records/orders")));
    }

    private static Producer<String, String> producer(TestBroker broker, Map<String, String> options) {
        Map<String, Object> all = new java.util.HashMap<>(options);
        all.put("bootstrap.servers", broker.bootstrapServers);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private static int recordsIn(String json) {
        return json.split("\"offset\":", -1).length - 1;
    }

    private static void check(String what, int expected, int found) {
        if (expected != found) {
            throw new AssertionError(what + ": expected " + expected + " record(s), found " + found);
        }
        System.out.println("ok: " + what);
    }
}
