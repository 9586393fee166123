import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** `ottla test-broker` for the tests of a class: start it before all, close it after all, reset it before each. */
final class TestBroker implements AutoCloseable {
    final String bootstrapServers;
    private final Process process;
    private final String control;
    private final HttpClient http = HttpClient.newHttpClient();

    TestBroker() throws IOException {
        String ottla = Optional.ofNullable(System.getenv("OTTLA")).orElse("ottla");
        // The broker stops when its standard input ends, which it does with this process.
        process = new ProcessBuilder(ottla, "test-broker", "--stop-with-stdin")
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader lines = process.inputReader();
        bootstrapServers = after("listening on ", lines.readLine());
        control = after("control on ", lines.readLine());
    }

    private static String after(String prefix, String line) throws IOException {
        if (line == null || !line.startsWith(prefix)) {
            throw new IOException("ottla test-broker printed " + line);
        }
        return line.substring(prefix.length());
    }

    String get(String path) throws IOException, InterruptedException {
        return send(HttpRequest.newBuilder(URI.create(control + path)));
    }

    String post(String path, String json) throws IOException, InterruptedException {
        return send(HttpRequest.newBuilder(URI.create(control + path))
                .POST(HttpRequest.BodyPublishers.ofString(json)));
    }

    private String send(HttpRequest.Builder request) throws IOException, InterruptedException {
        HttpResponse<String> response = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new AssertionError(response.body());
        }
        return response.body();
    }

    @Override
    public void close() {
        process.destroy();
        process.onExit().orTimeout(30, TimeUnit.SECONDS).join();
    }
}
