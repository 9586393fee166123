import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/** Prints, for each line of hexadecimal digits and a number of partitions, hash and partition. */
public class HashKeys {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            byte[] key = HexFormat.of().parseHex(words[0]);
            int count = Integer.parseInt(words[1]);
            int partition = BuiltInPartitioner.partitionForKey(key, count);
            System.out.println(Utils.murmur2(key) + " " + partition);
        }
    }
}
