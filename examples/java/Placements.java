import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints each message of paceline.placements up to its present end. Usage: Placements HOST:PORT FILE.avsc... */
public final class Placements {
    private static final String TOPIC = "paceline.placements";

    public static void main(String[] arguments) throws Exception {
        List<Path> files = new ArrayList<>();
        for (String name : List.of(arguments).subList(1, arguments.length)) {
            files.add(Path.of(name));
        }
        var decoder = new SingleObject(files);
        Map<String, Object> settings =
                Map.of("bootstrap.servers", arguments[0], "isolation.level", "read_committed");
        try (var consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> cells = new ArrayList<>();
            consumer.partitionsFor(TOPIC).forEach(each -> cells.add(new TopicPartition(TOPIC, each.partition())));
            consumer.assign(cells);
            consumer.seekToBeginning(cells);
            Map<TopicPartition, Long> ends = consumer.endOffsets(cells);
            while (cells.stream().anyMatch(cell -> consumer.position(cell) < ends.get(cell))) {
                for (ConsumerRecord<String, byte[]> each : consumer.poll(Duration.ofMillis(100))) {
                    var id = each.headers().lastHeader("paceline-event-id").value();
                    System.out.printf(
                            "%s\t%s\t%s%n",
                            each.key(), new String(id, StandardCharsets.UTF_8), decoder.decode(each.value()));
                }
            }
        }
    }
}
