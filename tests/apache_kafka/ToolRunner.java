import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/** Runs tools of Kafka one after the other in one process: a line of standard input is a class and its arguments. */
public class ToolRunner {
    private static class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int[] code = new int[1];
        boolean[] hasEnded = new boolean[1];
        Exit.Procedure end = (number, message) -> {
            // A tool may take the exception for its own failure, and end a second time.
            if (!hasEnded[0]) {
                code[0] = number;
                hasEnded[0] = true;
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            hasEnded[0] = false;
            code[0] = 0;
            try {
                Class.forName(words[0])
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (java.lang.reflect.InvocationTargetException error) {
                if (!(error.getCause() instanceof Ended)) {
                    throw error;
                }
            }
            System.out.println("\u0001" + code[0]);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
