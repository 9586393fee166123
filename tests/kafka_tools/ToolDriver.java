import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/** Runs Kafka's tools in one JVM: a line of the input has a class and its arguments, with tabs in between. */
public class ToolDriver {
    private static final long LIMIT_MS = 60_000;

    private static final PrintStream NOWHERE = new PrintStream(OutputStream.nullOutputStream());

    /** The code of the first exit; what comes after it would not have happened. */
    private static volatile Integer exitCode;

    private static class Exited extends RuntimeException { }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = System.out;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            var written = new ByteArrayOutputStream();
            var stream = new PrintStream(written, true, StandardCharsets.UTF_8);
            System.setOut(stream);
            System.setErr(stream);
            exitCode = null;
            int[] code = {-1};
            var thread = new Thread(() -> code[0] = run(words));
            thread.setDaemon(true);
            thread.start();
            thread.join(LIMIT_MS);
            String outcome = thread.isAlive() ? "hangs" : Integer.toString(code[0]);
            stream.flush();
            answers.println(outcome + " " + Base64.getEncoder().encodeToString(written.toByteArray()));
            answers.flush();
            if (thread.isAlive()) {
                break;
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void exit(int code) {
        if (exitCode == null) {
            exitCode = code;
            System.setOut(NOWHERE);
            System.setErr(NOWHERE);
        }
        throw new Exited();
    }

    private static int run(String[] words) {
        try {
            Class.forName(words[0]).getMethod("main", String[].class)
                .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            return exitCode == null ? 0 : exitCode;
        } catch (InvocationTargetException error) {
            if (exitCode != null) {
                return exitCode;
            }
            error.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            return 1;
        }
    }
}
