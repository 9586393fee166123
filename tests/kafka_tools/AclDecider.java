import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Asks Kafka's StandardAuthorizer. A line of the input begins with what it is; tabs separate its parts. */
public class AclDecider {
    private static StandardAuthorizer authorizer;

    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "case" -> start(words[1], words[2]);
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), aclOf(words));
                case "may" -> answers.append(letter(() -> authorizer.authorize(
                    contextOf(words), List.of(actionOf(words))).get(0)));
                case "some" -> answers.append(letter(() -> authorizer.authorizeByResourceType(
                    contextOf(words), operation(words[3]), type(words[4]))));
                case "end" -> answers.append('\n');
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.out.print(answers);
    }

    private interface Question {
        AuthorizationResult ask() throws Exception;
    }

    private static char letter(Question question) {
        try {
            return question.ask() == AuthorizationResult.ALLOWED ? 'a' : 'd';
        } catch (Exception error) {
            return 'x';
        }
    }

    private static void start(String superUsers, String allowsWithoutAcls) {
        authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "super.users", superUsers, "allow.everyone.if.no.acl.found", allowsWithoutAcls));
        authorizer.withPluginMetrics(withoutMetrics());
        authorizer.completeInitialLoad();
    }

    private static PluginMetrics withoutMetrics() {
        var metrics = new Metrics();
        return (PluginMetrics) Proxy.newProxyInstance(
            AclDecider.class.getClassLoader(), new Class<?>[] {PluginMetrics.class},
            (proxy, method, given) -> switch (method.getName()) {
                case "metricName" -> metrics.metricName((String) given[0], "none");
                case "addSensor" -> metrics.sensor((String) given[0]);
                default -> null;
            });
    }

    private static StandardAcl aclOf(String[] words) {
        return new StandardAcl(
            type(words[1]), words[2], PatternType.fromCode(Byte.parseByte(words[3])), words[4],
            words[5], operation(words[6]), AclPermissionType.fromCode(Byte.parseByte(words[7])));
    }

    private static Action actionOf(String[] words) {
        var pattern = new ResourcePattern(type(words[4]), words[5], PatternType.LITERAL);
        return new Action(operation(words[3]), pattern, 1, true, true);
    }

    private static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }

    private static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    private static AuthorizableRequestContext contextOf(String[] words) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(words[1]);
        InetAddress address = InetAddress.getByName(words[2]);
        return new AuthorizableRequestContext() {
            @Override public String listenerName() {
                return "PLAINTEXT";
            }

            @Override public SecurityProtocol securityProtocol() {
                return SecurityProtocol.PLAINTEXT;
            }

            @Override public KafkaPrincipal principal() {
                return principal;
            }

            @Override public InetAddress clientAddress() {
                return address;
            }

            @Override public int requestType() {
                return 0;
            }

            @Override public int requestVersion() {
                return 0;
            }

            @Override public String clientId() {
                return "";
            }

            @Override public int correlationId() {
                return 0;
            }
        };
    }
}
