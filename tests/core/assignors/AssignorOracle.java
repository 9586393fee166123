import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Asks Kafka's assignors. Requests and answers are lines of words; names are URL-encoded, bytes are hexadecimal, "-" is
 * null. An assignment is asked for with lines "topic", "member" and at last "assign".
 */
public class AssignorOracle {
    private final Map<String, Node> racks = new LinkedHashMap<>();
    private final List<PartitionInfo> partitions = new ArrayList<>();
    private final Map<String, Subscription> members = new HashMap<>();

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        AssignorOracle oracle = new AssignorOracle();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "topic" -> oracle.topic(words);
                case "member" -> oracle.member(words);
                case "assign" -> {
                    out.println(oracle.assign(words[1]));
                    out.flush();
                    oracle = new AssignorOracle();
                }
                case "subscription" -> {
                    Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes(words[2]));
                    out.println(hex(ConsumerProtocol.serializeSubscription(subscription, Short.parseShort(words[1]))));
                    out.flush();
                }
                case "user-data" -> {
                    ConsumerPartitionAssignor assignor = assignor(words[1]);
                    ConsumerGroupMetadata group =
                        new ConsumerGroupMetadata("group", Integer.parseInt(words[2]), "member", Optional.empty());
                    assignor.onAssignment(ConsumerProtocol.deserializeAssignment(bytes(words[3])), group);
                    out.println(hex(assignor.subscriptionUserData(Set.of())));
                    out.flush();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    /** topic NAME PARTITION[,RACK]... */
    private void topic(String[] words) {
        for (int i = 2; i < words.length; i++) {
            String[] parts = words[i].split(",");
            Node[] replicas = new Node[parts.length - 1];
            for (int j = 1; j < parts.length; j++) {
                String rack = name(parts[j]);
                replicas[j - 1] = racks.computeIfAbsent(rack, r -> new Node(racks.size(), "host", 9092, r));
            }
            partitions.add(
                new PartitionInfo(name(words[1]), Integer.parseInt(parts[0]), Node.noNode(), replicas, replicas));
        }
    }

    /** member ID INSTANCE SUBSCRIPTION */
    private void member(String[] words) {
        Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes(words[3]));
        subscription.setGroupInstanceId(words[2].equals("-") ? Optional.empty() : Optional.of(name(words[2])));
        members.put(name(words[1]), subscription);
    }

    private String assign(String assignor) {
        Cluster cluster =
            new Cluster("cluster", racks.values(), partitions, Collections.emptySet(), Collections.emptySet());
        StringBuilder answer = new StringBuilder();
        try {
            Map<String, Assignment> shares =
                assignor(assignor).assign(cluster, new GroupSubscription(members)).groupAssignment();
            for (Map.Entry<String, Assignment> entry : shares.entrySet()) {
                String member = URLEncoder.encode(entry.getKey(), StandardCharsets.UTF_8);
                ByteBuffer share = ConsumerProtocol.serializeAssignment(entry.getValue());
                List<String> partitions = new ArrayList<>(List.of("partitions"));
                entry.getValue().partitions().forEach(tp -> partitions.add(
                    URLEncoder.encode(tp.topic(), StandardCharsets.UTF_8) + "/" + tp.partition()));
                answer.append(member).append(' ').append(String.join(",", partitions)).append(' ');
                answer.append(hex(share)).append(' ');
            }
            return answer.toString();
        } catch (RuntimeException error) {
            return "error " + error.toString().replace('\n', ' ');
        }
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static String name(String word) {
        return URLDecoder.decode(word, StandardCharsets.UTF_8);
    }

    private static ByteBuffer bytes(String word) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(word));
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "-";
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return HexFormat.of().formatHex(data);
    }
}
