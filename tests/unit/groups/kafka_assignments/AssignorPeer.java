import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Lets Apache Kafka's own assignors answer: one JSON object per line in, one per line out.
 * In: {"assignor", "topics": {id: count}, "members": {id: {"instance", "topics": [], "assigned": {}}}}.
 * Out: {member: {topic: [partitions]}}.
 */
public class AssignorPeer {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(JSON.readTree(line)));
        }
    }

    private static ObjectNode answer(JsonNode asked) throws Exception {
        Map<Uuid, Integer> counts = new HashMap<>();
        asked.get("topics").fields().forEachRemaining(
            topic -> counts.put(uuid(topic.getKey()), topic.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        asked.get("members").fields().forEachRemaining(entry -> {
            JsonNode member = entry.getValue();
            Set<Uuid> topics = new HashSet<>();
            member.get("topics").forEach(topic -> topics.add(uuid(topic.asText())));
            Map<Uuid, Set<Integer>> assigned = new HashMap<>();
            member.get("assigned").fields().forEachRemaining(topic -> {
                Set<Integer> partitions = new TreeSet<>();
                topic.getValue().forEach(partition -> partitions.add(partition.asInt()));
                assigned.put(uuid(topic.getKey()), partitions);
                for (int partition : partitions) {
                    owners.computeIfAbsent(uuid(topic.getKey()), __ -> new HashMap<>())
                        .put(partition, entry.getKey());
                }
            });
            subscriptions.add(topics);
            members.put(entry.getKey(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                Optional.ofNullable(member.get("instance").textValue()),
                topics,
                new Assignment(Collections.unmodifiableMap(assigned))));
        });
        ConsumerGroupPartitionAssignor assignor =
            asked.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment made = assignor.assign(
            new GroupSpecImpl(
                members,
                subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS,
                owners),
            new Describer(counts));
        ObjectNode out = JSON.createObjectNode();
        made.members().forEach((memberId, assignment) -> {
            ObjectNode topics = out.putObject(memberId);
            assignment.partitions().forEach((topicId, partitions) -> {
                ArrayNode numbers = topics.putArray(javaUuid(topicId).toString());
                new TreeSet<>(partitions).forEach(numbers::add);
            });
        });
        return out;
    }

    private static Uuid uuid(String text) {
        UUID parsed = UUID.fromString(text);
        return new Uuid(parsed.getMostSignificantBits(), parsed.getLeastSignificantBits());
    }

    private static UUID javaUuid(Uuid id) {
        return new UUID(id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private record Describer(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topicId) {
            return counts.getOrDefault(topicId, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topicId, int partition) {
            return Set.of();
        }
    }
}
