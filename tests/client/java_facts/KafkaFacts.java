import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.serialization.*;

/** Prints the options of Kafka's clients, then the bytes of the values that are read from standard input. */
public class KafkaFacts {
    public static void main(String[] arguments) {
        options("producer", ProducerConfig.configDef());
        options("consumer", ConsumerConfig.configDef());
        options("admin", AdminClientConfig.configDef());
        System.out.println("end of options");
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ", -1);
            System.out.println(hex(bytes(words)));
        }
    }

    static void options(String client, ConfigDef options) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(options.configKeys()).values()) {
            boolean required = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
            String value = required ? "required" : ConfigDef.convertToString(key.defaultValue, key.type);
            System.out.println(String.join("|", client, key.name, key.type.name().toLowerCase(),
                value == null ? "null" : value, key.importance.name().toLowerCase()));
        }
    }

    /** A line: the serializer, its encoding or `-`, then items, each in hexadecimal UTF-8 or null. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static byte[] bytes(String[] words) {
        boolean list = words[0].startsWith("list:");
        String name = list ? words[0].substring(5) : words[0];
        Serializer serializer = serializer(name);
        if (!words[1].equals("-"))
            serializer.configure(Map.of("serializer.encoding", words[1]), false);
        List<Object> values = new ArrayList<>();
        for (int index = 2; index < words.length; index++)
            values.add(words[index].equals("null") ? null : value(name, text(words[index])));
        if (list)
            return new ListSerializer(serializer).serialize("topic", values);
        return serializer.serialize("topic", values.get(0));
    }

    static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    static String hex(byte[] data) {
        return data == null ? "null" : HexFormat.of().formatHex(data);
    }

    static Serializer<?> serializer(String name) {
        return switch (name) {
            case "bytes" -> new ByteArraySerializer();
            case "str" -> new StringSerializer();
            case "short" -> new ShortSerializer();
            case "int" -> new IntegerSerializer();
            case "long" -> new LongSerializer();
            case "float" -> new FloatSerializer();
            case "double" -> new DoubleSerializer();
            case "boolean" -> new BooleanSerializer();
            case "uuid" -> new UUIDSerializer();
            case "void" -> new VoidSerializer();
            default -> throw new IllegalArgumentException(name);
        };
    }

    static Object value(String name, String text) {
        return switch (name) {
            case "bytes" -> text.getBytes(StandardCharsets.UTF_8);
            case "str" -> text;
            case "short" -> Short.valueOf(text);
            case "int" -> Integer.valueOf(text);
            case "long" -> Long.valueOf(text);
            case "float" -> Float.valueOf(text);
            case "double" -> Double.valueOf(text);
            case "boolean" -> Boolean.valueOf(text);
            case "uuid" -> UUID.fromString(text);
            default -> throw new IllegalArgumentException(name);
        };
    }
}
