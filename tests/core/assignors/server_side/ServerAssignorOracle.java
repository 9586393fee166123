import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Asks the assignors of Kafka's group coordinator. Requests and answers are lines of words; member and instance ids are
 * URL-encoded, "-" is null. Topics are numbered as they come. An assignment is "TOPIC:PARTITION,PARTITION;TOPIC:…".
 * A target is asked for with lines "topic", "member" and at last "assign".
 */
public class ServerAssignorOracle {
    private final List<Uuid> topics = new ArrayList<>();
    private final Map<Uuid, Integer> partitionCounts = new LinkedHashMap<>();
    // As the coordinator has them: hash maps, filled one by one.
    private final Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
    private final Map<Uuid, Map<Integer, String>> owners = new HashMap<>();

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        ServerAssignorOracle oracle = new ServerAssignorOracle();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "topic" -> oracle.topic(words);
                case "member" -> oracle.member(words);
                case "assign" -> {
                    out.println(oracle.assign(words[1], SubscriptionType.valueOf(words[2])));
                    out.flush();
                    oracle = new ServerAssignorOracle();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    /** topic HIGH-HALF LOW-HALF PARTITIONS */
    private void topic(String[] words) {
        Uuid topicId = new Uuid(Long.parseUnsignedLong(words[1], 16), Long.parseUnsignedLong(words[2], 16));
        topics.add(topicId);
        if (!words[3].equals("-"))
            partitionCounts.put(topicId, Integer.parseInt(words[3]));
    }

    /** member ID INSTANCE TOPIC,TOPIC ASSIGNMENT */
    private void member(String[] words) {
        String memberId = URLDecoder.decode(words[1], StandardCharsets.UTF_8);
        Optional<String> instanceId = words[2].equals("-")
            ? Optional.empty()
            : Optional.of(URLDecoder.decode(words[2], StandardCharsets.UTF_8));
        Set<Uuid> subscription = new LinkedHashSet<>();
        if (!words[3].equals("-"))
            for (String number : words[3].split(","))
                subscription.add(topics.get(Integer.parseInt(number)));
        ConsumerGroupTargetAssignmentMemberValue record = new ConsumerGroupTargetAssignmentMemberValue();
        if (!words[4].equals("-")) {
            for (String part : words[4].split(";")) {
                String[] pair = part.split(":");
                Uuid topicId = topics.get(Integer.parseInt(pair[0]));
                List<Integer> partitions = new ArrayList<>();
                for (String number : pair[1].split(","))
                    partitions.add(Integer.valueOf(number));
                for (Integer partition : partitions)
                    owners.computeIfAbsent(topicId, __ -> new HashMap<>()).put(partition, memberId);
                record.topicPartitions().add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(topicId)
                    .setPartitions(partitions));
            }
        }
        members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(), instanceId, subscription, Assignment.fromRecord(record)));
    }

    private String assign(String name, SubscriptionType subscriptionType) {
        ConsumerGroupPartitionAssignor assignor = name.equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberAssignment> targets = assignor
            .assign(new GroupSpecImpl(members, subscriptionType, owners), new Describer())
            .members();
        StringBuilder answer = new StringBuilder("targets");
        targets.forEach((memberId, target) -> {
            List<String> parts = new ArrayList<>();
            target.partitions().forEach((topicId, partitions) -> {
                List<String> numbers = new ArrayList<>();
                new TreeSet<>(partitions).forEach(number -> numbers.add(number.toString()));
                parts.add(topics.indexOf(topicId) + ":" + String.join(",", numbers));
            });
            String assignment = parts.isEmpty() ? "-" : String.join(";", parts);
            answer.append(' ').append(URLEncoder.encode(memberId, StandardCharsets.UTF_8));
            answer.append(' ').append(assignment);
        });
        return answer.toString();
    }

    private class Describer implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topicId) {
            return partitionCounts.getOrDefault(topicId, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topicId, int partition) {
            throw new UnsupportedOperationException("no assignor asks for racks");
        }
    }
}
